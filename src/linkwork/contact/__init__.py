"""Contact: shapes that may touch, their gaps and normals, and the rule by which pairs of them are chosen."""

from linkwork.contact.candidates import Candidate, ContactPoint, Place
from linkwork.contact.contacts import Contacts, chosen_contacts
from linkwork.contact.joint_laws import JointLaws
from linkwork.contact.report import contact_lines
from linkwork.contact.rows import contact_rows, row_names

__all__ = [
    "Candidate",
    "ContactPoint",
    "Contacts",
    "JointLaws",
    "Place",
    "chosen_contacts",
    "contact_lines",
    "contact_rows",
    "row_names",
]
