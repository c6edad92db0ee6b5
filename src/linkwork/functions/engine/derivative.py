"""Derivatives of functions of a model, on the tangent space: calls and kernels (see `derivative_program`)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from linkwork.compiler.ir.program import Program
from linkwork.compiler.passes.inline import call_in_trace
from linkwork.compiler.runtime.build import build_on, check_dtype, check_target, check_wait
from linkwork.compiler.runtime.constant import ConstantKernel
from linkwork.errors import LinkworkError
from linkwork.functions.engine.array_labels import ArrayLabels, derivative_array_labels
from linkwork.functions.engine.call_arguments import has_symbols, resolve_device
from linkwork.functions.engine.derivative_program import DerivativeProgram
from linkwork.functions.engine.model_function import KernelKey
from linkwork.functions.engine.spring_potential import raise_if_no_potential


class Derivative(DerivativeProgram):
    """A derivative of a function of a model, called like the function with any leading batch dimensions.

    Its arguments are the arrays of the function, then parameters that are inputs (or by name,
    `parameters={"mass": ...}`), then directions or weights, and `out=`, `threads=` and `dtype=`. `inputs` and
    `outputs` list names and shapes. Within a trace it is traced. `kernel` returns its kernel, and `program`
    its program, which can be differentiated again.
    """

    def __repr__(self) -> str:
        name = getattr(self.model, "name", "")
        return f"<linkwork {self.kind} of {self.function.__name__} of {name!r} by {', '.join(self.wrt)}>"

    @property
    def inputs(self) -> tuple[Any, ...]:
        """Name and shape of each input."""
        return self.kernel().inputs

    @property
    def outputs(self) -> tuple[Any, ...]:
        """Name and shape of each output."""
        return self.kernel().outputs

    def program(self) -> Program:
        """Return the traced program.

        `lw.jvp`, `lw.vjp` and `lw.jacobian` differentiate this program with respect to the entries of q.
        """
        return self.traced

    def kernel(self, *, target: str = "cpu", dtype: str = "float64", wait: bool = False) -> Any:
        """Return the kernel, which is cached for the same derivative of the same model."""
        check_target(target)
        check_dtype(dtype)
        check_wait(wait)
        derivative = (self.function, self.kind, self.wrt, self.output)
        key = KernelKey(derivative, target, dtype, self.kernel_inputs, tuple(self.settings.items()))
        kernel = self.model.kernels.get(key)
        if kernel is None:
            kernel = self.model.kernels[key] = self._build(target, dtype)
            labels = self.array_labels(kernel)
            if kernel.array_labels is not None and kernel.array_labels != labels:
                labels = {}  # models with the same program share the kernel
            kernel.array_labels = labels
        return kernel.wait() if wait else kernel

    def array_labels(self, program: Any) -> dict[str, ArrayLabels]:
        """Return labels of the entries of the arrays of its kernel or program, by array."""
        function = self.function
        return derivative_array_labels(
            function.__name__,
            function.shapes,
            program.inputs,
            program.outputs,
            self.model,
            self.settings,
            {input_name: name for name, input_name in self._input_names.items()},
            function.configurations,
        )

    def _build(self, target: str, dtype: str) -> Any:
        if self.model.nq == 0 and not self.kernel_inputs.parameters:
            return ConstantKernel(self.traced, dtype)
        return build_on(target, self.identity(), self.program, dtype)

    def identity(self) -> str | None:
        """Return a text that, with the source of this package, determines the program.

        None if the program also depends on code outside the package.
        """
        f = self.function
        rule = [code for code in f.rule[1:] if code is not None] if f.rule else []
        base = f.identity(self.model, self.kernel_inputs, self.settings, *rule)
        return None if base is None else repr((self.kind, self.wrt, self.output, base))

    def __call__(self, *args: Any, **named: Any) -> Any:
        for name in named:
            if name in self.function.optional and name not in self.kernel_inputs.optional:
                raise TypeError(f"{self!r} has no input {name}: request it with optional={(name,)!r}")
        device, dtype = resolve_device(self.function.__name__, named, (*args, *named.values()))
        kernel_options = {word: named.pop(word) for word in ("out", "threads") if word in named}
        values = named.pop("parameters", None)
        if values is not None:
            args, named = self._with_parameters(args, named, values)
        if any(map(has_symbols, (*args, *named.values()))):
            program = self.traced
            results = call_in_trace(program, *self._in_order(program, args, named))
            return results[0] if len(results) == 1 else tuple(results)
        if self.kernel_inputs.parameters:
            raise_if_no_potential(self.function.__name__, self.model, self._parameters_of(args, named))
        if device == "cpu":
            args, named = self._checked(args, named)
        return self.kernel(target=device, dtype=dtype)(*args, **named, **kernel_options)

    def _checked(
        self, args: tuple[Any, ...], named: dict[str, Any]
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Return the arrays of a call, checked and possibly replaced by the check of the function."""
        check = self.function.check_arguments
        names = (*self.function.required, *self.kernel_inputs.optional)
        arrays = dict(zip(names, args)) | {name: named[name] for name in names if name in named}
        if check is None or set(arrays) != set(names):  # the kernel names what is missing
            return args, named
        check(self.model, arrays, self.settings, self._parameters_of(args, named))
        checked = [arrays[name] for name in names[: len(args)]]
        return (*checked, *args[len(names) :]), {name: arrays.get(name, x) for name, x in named.items()}

    def _parameters_of(self, args: tuple[Any, ...], named: dict[str, Any]) -> dict[str, Any]:
        """Return the parameters of a call by name."""
        words = {name: self._input_names[name] for name in self.kernel_inputs.parameters}
        first = len(self.function.required) + len(self.kernel_inputs.optional)
        by_place = dict(zip(words, args[first:]))
        return by_place | {name: named[word] for name, word in words.items() if word in named}

    def _in_order(self, program: Program, args: tuple[Any, ...], named: dict[str, Any]) -> list[Any]:
        """Return the arrays of a call within a trace in the order of the program's inputs."""
        names = [array.name for array in program.inputs]
        if len(args) + len(named) != len(names) or set(names[len(args) :]) != set(named):
            raise TypeError(f"{self!r} takes the arrays {', '.join(names)}")
        return [*args, *(named[name] for name in names[len(args) :])]

    def _with_parameters(
        self, args: tuple[Any, ...], named: dict[str, Any], values: Mapping[str, Any]
    ) -> tuple[tuple[Any, ...], Any]:
        """Return the arguments of a call with the values of `parameters=` among them."""
        if not isinstance(values, Mapping) or set(self.kernel_inputs.parameters) != set(values):
            raise LinkworkError(
                f"{self!r} takes the parameters {', '.join(self.kernel_inputs.parameters) or 'none'}"
            )
        first = len(self.function.required) + len(self.kernel_inputs.optional)
        numbers = [values[name] for name in self.kernel_inputs.parameters]
        if len(args) >= first:
            return (*args[:first], *numbers, *args[first:]), named
        return args, named | {self._input_names[name]: values[name] for name in self.kernel_inputs.parameters}
