"""Functions for other frameworks (JAX, PyTorch, CasADi, SymPy): kernels, programs and entrywise derivatives.

Such frameworks differentiate with respect to the entries of every array, q included. Functions normalise
quaternions, so these derivatives are correct along any motion of q; `lw.vjp` returns gradients on the tangent
space, with nv numbers.
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
    """Function of arrays for another framework; traced only if no kernel is cached under its `identity`."""

    def __init__(
        self,
        name: str,
        identity: str | None,
        make: Callable[[], Program],
        rule: Rule | None = None,
        arrays_of: Callable[[str], tuple[Arrays, Arrays]] | None = None,
    ) -> None:
        """Create a source of the program that `make` traces.

        `rule` returns the program of a "jvp" or "vjp" with respect to the named inputs, or None; it replaces
        forward mode, and reverse mode where that raises. `arrays_of` replaces tracing in `arrays`.
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
        """Return names and shapes of inputs and outputs.

        They are those of a kernel, which is built in `dtype` if there is none; derivatives need no kernel.
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
        """Return the function from inputs and directions of the inputs `wrt` to changes of the outputs."""
        return self._derive("jvp", self._forward, differentiate.jvp_arrays, tuple(wrt))

    def vjp(self, wrt: Iterable[int]) -> Source:
        """Return the function from inputs and a weight for each output to gradients of the inputs `wrt`."""
        return self._derive("vjp", self._reverse, differentiate.vjp_arrays, tuple(wrt))

    def _forward(self, program: Program, names: list[str]) -> Program:
        rule_program = None if self._rule is None else self._rule("jvp", names)
        return differentiate.jvp(program, names) if rule_program is None else rule_program

    def _reverse(self, program: Program, names: list[str]) -> Program:
        try:
            return differentiate.vjp(program, names)
        except DifferentiationError:
            rule_program = None if self._rule is None else self._rule("vjp", names)
            if rule_program is None:
                raise
            return rule_program

    def _derive(
        self,
        kind: str,
        differentiated: Callable[[Program, list[str]], Program],
        arrays_added: Any,
        wrt: tuple[int, ...],
    ) -> Source:
        def make() -> Program:
            program = self.program
            derivative = differentiated(program, [program.inputs[k].name for k in wrt])
            value_count = len(program.outputs)  # which derivatives return first
            return replace(
                derivative,
                outputs=derivative.outputs[value_count:],
                results=derivative.results[value_count:],
            )

        def arrays_of(dtype: str) -> tuple[Arrays, Arrays]:
            inputs, outputs = self.arrays(dtype)
            added_inputs, new_outputs = arrays_added(inputs, outputs, wrt)
            return inputs + added_inputs, new_outputs

        if (kind, wrt) not in self._derived:
            identity = None if self.identity is None else repr(("entries", kind, wrt, self.identity))
            self._derived[kind, wrt] = Source(f"{self.name}_{kind}", identity, make, None, arrays_of)
        return self._derived[kind, wrt]


def source_of(function: Any, model: Any, options: dict[str, Any]) -> Source:
    """Return the source of a function of a model, with the options of `compile`, or of a derivative.

    Sources with an identity are cached in the model.
    """
    if isinstance(function, Derivative):
        if model is not None or options:
            raise LinkworkError("a derivative includes its model and options; pass no others")
        return _cached_source(
            function.model, function.identity(), function.function.__name__, function.program
        )
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

    return _cached_source(
        model, identity, function.__name__, lambda: function.program_of(model, inputs, settings), rule
    )


def _cached_source(
    model: Any, identity: str | None, name: str, make: Callable[[], Program], rule: Any = None
) -> Source:
    if model.nq == 0:
        raise ModelError(f"{model.name} has no degrees of freedom: there is nothing to compile")
    name = name.strip("<>")
    if identity is None:
        return Source(name, None, make, rule)
    key = ("source", identity)
    if key not in model.cache:
        model.cache[key] = Source(name, identity, make, rule)
    return model.cache[key]
