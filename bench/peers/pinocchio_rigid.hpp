// Rigid constraints of Pinocchio as the programs that time it read them.
//
// They are a text: count; then rows 3 or 6, body and place of the constrained frame, body (-1: the world) and place of what it
// is held to.

#pragma once

#include "pinocchio_shared.hpp"

#include "pinocchio/algorithm/constrained-dynamics.hpp"
#include "pinocchio/algorithm/proximal.hpp"

typedef pin::RigidConstraintModel Rigid;
typedef pin::RigidConstraintData RigidData;
typedef pin::ProximalSettings Settings;
typedef std::vector<Rigid> Rigids;
typedef std::vector<RigidData> RigidDatas;

static Rigids read_constraints(const char * path, const Model & model)
{
  std::ifstream in(path);
  size_t count = 0;
  in >> count;
  Rigids out;
  for (size_t i = 0; i < count; ++i)
  {
    int rows, body, to;
    in >> rows >> body;
    const pin::SE3 place = read_place(in);
    in >> to;
    const pin::SE3 place_to = read_place(in);
    const pin::ContactType type = rows == 6 ? pin::CONTACT_6D : pin::CONTACT_3D;
    out.emplace_back(type, model, pin::JointIndex(body + 1), place, pin::JointIndex(to + 1), place_to, pin::LOCAL);
  }
  if (!in)
    throw std::runtime_error("cannot read the constraints");
  return out;
}
