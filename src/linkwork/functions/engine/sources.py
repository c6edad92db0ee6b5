"""A function as other software wants it: one kernel for each dtype, a program, and derivatives by the entries
of its inputs.

Frameworks that differentiate count every array by its entries, q too. Quaternions are normalised inside, so
derivatives by their entries are right along any motion of q; gradients with nv numbers are those of `lw.vjp`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

from linkwork.compiler.autodiff import differentiate
from linkwork.compiler.ir.program import Array, Program
from linkwork.compiler.runtime.build import build_on
from linkwork.compiler.runtime.kernel import Kernel, build_kernel, build_named_kernel
from linkwork.errors import DifferentiationError, LinkworkError, ModelError
from linkwork.functions.differentiation import entrywise_jvp, entrywise_vjp
from linkwork.functions.engine.derivative import Derivative
from linkwork.functions.engine.model_function import ModelFunction
from linkwork.lazy import cached_property

Arrays = tuple[Array, ...]
Rule = Callable[[str, list[str]], Program | None]


class Source:
    """Arrays in, arrays out. The program is traced when it is needed: kernels are found by `identity`, where
    there is one.
    """

    def __init__(
        self,
        name: str,
        identity: str | None,
        make: Callable[[], Program],
        rule: Rule | None = None,
        arrays_of: Callable[[str], tuple[Arrays, Arrays]] | None = None,
    ) -> None:
        """`rule` gives the programs of "jvp" and "vjp" by names of inputs, or None; that of "vjp" where
        reverse mode cannot go.

        `arrays_of` gives what `arrays` does.
        """
        self.name = name
        self.identity = identity
        self._make = make
        self._rule = rule
        self._arrays_of = arrays_of or self._arrays_of_kernel
        self._arrays: tuple[Arrays, Arrays] | None = None
        self._derived: dict[tuple[str, tuple[int, ...]], Source] = {}
        self._kernels: dict[str, Kernel] = {}
        self._cuda_kernels: dict[str, Any] = {}

    def __repr__(self) -> str:
        return f"<linkwork {self.name}>"

    @cached_property
    def program(self) -> Program:
        """The traced program."""
        return self._make()

    @property
    def inputs(self) -> Arrays:
        """Names and shapes of the inputs."""
        return self.arrays()[0]

    @property
    def outputs(self) -> Arrays:
        """Names and shapes of the outputs."""
        return self.arrays()[1]

    def arrays(self, dtype: str = "float64") -> tuple[Arrays, Arrays]:
        """Return names and shapes of inputs and outputs: those of a kernel, in this dtype if there is none;
        derivatives need none.
        """
        if self._arrays is None:
            self._arrays = self._arrays_of(dtype)
        return self._arrays

    def _arrays_of_kernel(self, dtype: str) -> tuple[Arrays, Arrays]:
        kernel = self.kernel(next(iter(self._kernels), dtype))
        return kernel.inputs, kernel.outputs

    def cuda_kernel(self, dtype: str = "float64") -> Any:
        """Return the kernel on a GPU in a dtype."""
        if dtype not in self._cuda_kernels:
            self._cuda_kernels[dtype] = build_on("cuda", self.identity, lambda: self.program, dtype)
        return self._cuda_kernels[dtype]

    def kernel(self, dtype: str = "float64") -> Kernel:
        """Return the kernel in a dtype; inputs and outputs are the same in both."""
        if dtype not in self._kernels:
            if self.identity is None:
                self._kernels[dtype] = build_kernel(self.program, dtype)
            else:
                self._kernels[dtype] = build_named_kernel(self.identity, lambda: self.program, dtype)
        return self._kernels[dtype]

    def jvp(self, wrt: Iterable[int]) -> Source:
        """Return the changes of the outputs: takes the inputs, then a direction for each of those at the
        places `wrt`.
        """
        return self._derive("jvp", self._forward, differentiate.jvp_arrays, tuple(wrt))

    def vjp(self, wrt: Iterable[int]) -> Source:
        """Return the gradients of inputs at the places `wrt`: takes the inputs, then a weight for each
        output.
        """
        return self._derive("vjp", self._reverse, differentiate.vjp_arrays, tuple(wrt))

    def _forward(self, program: Program, names: list[str]) -> Program:
        ruled = None if self._rule is None else self._rule("jvp", names)
        return differentiate.jvp(program, names) if ruled is None else ruled

    def _reverse(self, program: Program, names: list[str]) -> Program:
        try:
            return differentiate.vjp(program, names)
        except DifferentiationError:
            ruled = None if self._rule is None else self._rule("vjp", names)
            if ruled is None:
                raise
            return ruled

    def _derive(self, kind: str, of: Callable[..., Program], adds: Any, wrt: tuple[int, ...]) -> Source:
        def make() -> Program:
            program = self.program
            made = of(program, [program.inputs[k].name for k in wrt])
            value_count = len(program.outputs)  # the values themselves are not asked for
            return replace(made, outputs=made.outputs[value_count:], results=made.results[value_count:])

        def arrays_of(dtype: str) -> tuple[Arrays, Arrays]:
            inputs, outputs = self.arrays(dtype)
            more, added = adds(inputs, outputs, wrt)
            return inputs + more, added

        if (kind, wrt) not in self._derived:
            identity = None if self.identity is None else repr(("entries", kind, wrt, self.identity))
            self._derived[kind, wrt] = Source(f"{self.name}_{kind}", identity, make, None, arrays_of)
        return self._derived[kind, wrt]


def source_of(function: Any, model: Any, options: dict[str, Any]) -> Source:
    """Return the source of a function of a model with options as for `compile`, or of a derivative; the same
    for the same words.
    """
    if isinstance(function, Derivative):
        if model is not None or options:
            raise LinkworkError("a derivative includes its model and options; pass no others")
        return _remembered(function.model, function.identity(), function.function.__name__, function.program)
    if not isinstance(function, ModelFunction):
        raise LinkworkError(
            f"function: expected a function of a model, such as linkwork.forward_dynamics, got {function!r}"
        )
    optional = options.pop("optional", ())
    parameters = options.pop("parameters", ())
    settings = function.normalize_options(model, options)
    inputs = function.inputs(model, optional, parameters)
    identity = function.identity(model, inputs, settings)

    def rule(kind: str, names: list[str]) -> Program | None:
        if kind == "vjp":
            return entrywise_vjp(function, model, names, optional, parameters, options)
        if function.rule is None or not function.rule.holds(model, settings, names, "jvp"):
            return None
        return entrywise_jvp(function, model, names, optional, parameters, options)

    return _remembered(
        model, identity, function.__name__, lambda: function.program_of(model, inputs, settings), rule
    )


def _remembered(
    model: Any, identity: str | None, name: str, make: Callable[[], Program], rule: Any = None
) -> Source:
    if model.nq == 0:
        raise ModelError(f"{model.name} cannot move: there is nothing to compile")
    name = name.strip("<>")
    if identity is None:
        return Source(name, None, make, rule)
    key = ("source", identity)
    if key not in model.cache:
        model.cache[key] = Source(name, identity, make, rule)
    return model.cache[key]
