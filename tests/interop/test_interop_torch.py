"""Functions in PyTorch: the same numbers as our calls, PyTorch's own checks of operators, and its
transformations.
"""

from __future__ import annotations

import subprocess
import sys
from functools import cache
from typing import Any

import numpy as np
import pytest

import linkwork as lw
from waiting import PATIENCE

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.filterwarnings("default")  # PyTorch warns of its own parts


@cache
def model() -> lw.Model:
    return lw.robots.slider_crank()


@cache
def dynamics() -> Any:
    return lw.interop.torch.function(lw.forward_dynamics, model())


def states(count: int, *, grad: bool = False) -> tuple[Any, ...]:
    q, v = (np.stack(x) for x in zip(*(model().random_state(k) for k in range(count))))
    tau = np.sin(np.arange(count))[:, None] * np.ones(model().nv)
    return tuple(torch.tensor(x, requires_grad=grad) for x in (q, v, tau))


def test_the_same_bits_as_our_calls() -> None:
    q, v, tau = states(9)
    wanted = lw.forward_dynamics(model(), *(x.numpy() for x in (q, v, tau)))
    np.testing.assert_array_equal(dynamics()(q, v, tau), wanted)
    np.testing.assert_array_equal(dynamics()(q, tau=tau, v=v), wanted)
    np.testing.assert_array_equal(torch.vmap(dynamics())(q, v, tau), wanted)
    np.testing.assert_array_equal(dynamics()(q.T.contiguous().T, v, tau), wanted)  # another order of memory
    one = lw.forward_dynamics(model(), q.numpy(), v[0].numpy(), tau.numpy())
    np.testing.assert_array_equal(dynamics()(q, v[0], tau), one)
    np.testing.assert_array_equal(torch.vmap(dynamics(), (0, None, 0))(q, v[0], tau), one)


def test_the_checks_of_pytorch() -> None:
    for count in (1, 3):
        args = states(count, grad=True)
        torch.library.opcheck(dynamics().operator, args)
        assert torch.autograd.gradcheck(dynamics(), args)
    one = tuple(x[0].detach().requires_grad_(True) for x in states(1))
    assert torch.autograd.gradcheck(dynamics(), one) and torch.autograd.gradgradcheck(dynamics(), one)


def test_forward_mode_outside_of_torch_func() -> None:
    """Dual numbers, and gradients of many weights at once, which PyTorch takes apart by itself."""
    args = states(2, grad=True)
    assert torch.autograd.gradcheck(dynamics(), args, check_forward_ad=True, check_batched_grad=True)
    q, v, tau = states(1)
    with torch.autograd.forward_ad.dual_level():
        found = dynamics()(q, v, torch.autograd.forward_ad.make_dual(tau, torch.ones_like(tau)))
        _, moved = torch.autograd.forward_ad.unpack_dual(found)
    np.testing.assert_allclose(
        moved[0], lw.mass_matrix_inverse(model(), q[0].numpy()).sum(axis=-1), rtol=1e-12
    )
    for strategy in ("reverse-mode", "forward-mode"):
        by_tau = torch.autograd.functional.jacobian(
            lambda t: dynamics()(q[0], v[0], t), tau[0], vectorize=True, strategy=strategy
        )
        np.testing.assert_allclose(by_tau, lw.mass_matrix_inverse(model(), q[0].numpy()), rtol=1e-12)


def test_gradients_of_shared_arguments_are_summed() -> None:
    q, v, tau = states(4)
    shared = tau[0].clone().requires_grad_(True)
    dynamics()(q, v, shared).sum().backward()
    wanted = sum(torch.func.grad(lambda t, k=k: dynamics()(q[k], v[k], t).sum())(tau[0]) for k in range(4))
    np.testing.assert_allclose(shared.grad, wanted, rtol=1e-12)


def test_transformations() -> None:
    q, v, tau = (x[0] for x in states(1))
    made = lw.compile(lw.jacobian(lw.forward_dynamics.program(model()), "out", "q"))
    wanted = made(q.numpy(), v.numpy(), tau.numpy())[1]
    for jacobian in (torch.func.jacrev, torch.func.jacfwd):
        np.testing.assert_allclose(jacobian(dynamics())(q, v, tau), wanted, rtol=1e-12, atol=1e-12)
    rows = torch.vmap(torch.func.jacrev(dynamics()))(*states(3))
    assert rows.shape == (3, 1, model().nq)
    np.testing.assert_allclose(rows[0], wanted, rtol=1e-12, atol=1e-12)
    H = torch.func.hessian(lambda q: (dynamics()(q, v, tau) ** 2).sum())(q)
    np.testing.assert_allclose(H, H.T, atol=1e-10 * float(H.abs().max()))


def test_compiled() -> None:
    """The graph has the operator in one piece, and its gradient."""
    args = states(3, grad=True)
    f = dynamics()
    run = torch.compile(lambda *x: (f(*x) ** 2).sum(), fullgraph=True, backend="aot_eager")
    run(*args).backward()
    again = states(3, grad=True)
    (dynamics()(*again) ** 2).sum().backward()
    for a, b in zip(args, again):
        np.testing.assert_allclose(a.grad, b.grad, rtol=1e-14)


def test_through_a_loop_and_parameters() -> None:
    integrate = lw.interop.torch.function(lw.integrate, model(), parameters=("placement",))
    q, v, _ = (x[0].detach().requires_grad_(True) for x in states(1))
    place = torch.tensor(model().parameters()["placement"])
    assert torch.autograd.gradcheck(lambda q, v: integrate(q, 0.1 * v, place), (q, v))
    torch.library.opcheck(integrate.operator, (q, v, place))


def test_several_outputs_and_derivatives_on_the_tangent_space() -> None:
    made = lw.jacobian(lw.forward_dynamics, model(), wrt=("q", "v"))
    q, v, tau = states(3)
    by_q, by_v = lw.interop.torch.function(made)(q, v, tau)
    wanted = made(q.numpy(), v.numpy(), tau.numpy())
    np.testing.assert_array_equal(by_q, wanted[0])
    np.testing.assert_array_equal(by_v, wanted[1])


def test_single_precision_and_errors() -> None:
    q, v, tau = (x.float() for x in states(2))
    found = dynamics()(q, v, tau)
    assert found.dtype == torch.float32
    wanted = lw.forward_dynamics(model(), q.numpy(), v.numpy(), tau.numpy(), dtype="float32")
    np.testing.assert_array_equal(found, wanted)
    with pytest.raises(lw.DtypeError, match=r"v is torch.float64, another tensor torch.float32"):
        dynamics()(q, v.double(), tau)
    with pytest.raises(lw.ShapeError, match=r"q: expected shape \(\.\.\., 3\), got \(2, 1\)"):
        dynamics()(v, v, tau)
    with pytest.raises(TypeError, match="missing a required argument: 'tau'"):
        dynamics()(q, v)
    for bad, error, told in (
        (None, lw.DtypeError, "q: expected a tensor or numbers, got NoneType"),
        ("a", lw.DtypeError, "q: expected a tensor or numbers, got str"),
        (np.ones((2, 3)) * 1j, lw.DtypeError, "q: expected real numbers, got torch.complex128"),
        (q.to_sparse(), lw.DtypeError, "q: expected a dense tensor, got layout torch.sparse_coo"),
        (torch.ones(5, 3), lw.ShapeError, r"cannot be broadcast: \(5,\) of q, \(2,\) of v, \(2,\) of tau"),
    ):
        with pytest.raises(error, match=f"forward_dynamics: .*{told}"):
            dynamics()(bad, v, tau)


SOON = """
import sys, torch, numpy as np, linkwork as lw
chain = lw.robots.chain(3)
before = set(sys.modules)
x = torch.ones(2, 3, dtype=torch.float64, requires_grad=True)
lw.interop.torch.function(lw.forward_dynamics, chain)(x, x, x).sum().backward()
print(*(set(sys.modules) - before))
"""


def test_a_first_call_imports_no_compiler() -> None:
    """The machinery of torch.compile takes seconds to import, longer than a humanoid takes to compile."""
    done = subprocess.run([sys.executable, "-c", SOON], capture_output=True, text=True, timeout=PATIENCE)
    assert done.returncode == 0, done.stderr
    assert not {"torch._dynamo", "sympy"} & set(done.stdout.split())
