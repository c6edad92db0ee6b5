"""Programs of derivatives of functions of a model, on the tangent space.

The program of a function is differentiated with respect to its arrays and parameters of the model.
Derivatives with respect to a configuration q are those with respect to δ in integrate(q, δ) at δ = 0. Changes
of an output that is a configuration are tangent vectors, as `difference` returns them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from linkwork.compiler.autodiff import differentiate
from linkwork.compiler.ir.program import Program
from linkwork.compiler.ir.trace import trace
from linkwork.compiler.passes.inline import call_in_trace
from linkwork.errors import DifferentiationError
from linkwork.functions.engine import tangent
from linkwork.functions.engine.model_function import ModelFunction
from linkwork.functions.engine.traced_function import Inputs
from linkwork.functions.engine.wrt import wrt_names
from linkwork.lazy import cached_property

Wrt = str | Iterable[str] | None


class DerivativeProgram:
    """The program of a derivative of a function of a model: base class of `Derivative`.

    Parameters
    ----------
    kind : str
        "jacobian", "jvp", "vjp" or "hvp".
    function : ModelFunction
        The function.
    model : Model
        The model.
    wrt : str or iterable of str, optional
        Arrays and parameters of the model; by default the required arrays.
    output : str, optional
        Output whose Jacobian is computed; by default all.
    optional, names : iterable of str
        Optional arrays and parameters of the model that are inputs.
    options : dict
        Options of the function.
    """

    def __init__(
        self,
        kind: str,
        function: ModelFunction,
        model: Any,
        wrt: Wrt,
        output: str | None,
        optional: Iterable[str],
        names: Iterable[str],
        options: dict[str, Any],
    ) -> None:
        if not isinstance(function, ModelFunction):
            raise DifferentiationError(
                f"{kind} takes a program, or a function of a model and the model; not "
                f"{type(function).__name__}"
            )
        self.kind = kind
        self.function = function
        self.model = model
        self.output = output
        self.settings = function.normalize_options(model, options)
        self.wrt, self.kernel_inputs = self._select(wrt, optional, names)
        # functions such as `step` have shorter programs where they need not be differentiable
        if "differentiable" in function.options and not self._has_rule:
            self.settings = function.normalize_options(model, {"differentiable": True, **options})
        arrays = (*function.required, *self.kernel_inputs.optional)
        self._input_names = dict(
            zip(
                (*arrays, *self.kernel_inputs.parameters),
                function.input_shapes(model, self.kernel_inputs, self.settings),
            )
        )

    def _select(
        self, wrt: Wrt, optional: Iterable[str], names: Iterable[str]
    ) -> tuple[tuple[str, ...], Inputs]:
        """Return what to differentiate with respect to, and the inputs needed for this and by the caller."""
        function = self.function
        selected = function.required
        if wrt is not None:
            label = f"{self.kind} of {function.__name__}"
            selected = tuple(dict.fromkeys(wrt_names(self.model, wrt, function.shapes, label)))
        optional_arrays = [*_as_list(optional), *(n for n in selected if n in function.optional)]
        parameters = _as_list(names)
        parameters += [name for name in selected if name not in function.shapes and name not in parameters]
        return selected, function.inputs(self.model, optional_arrays, parameters)

    # the function and its tangent space

    @cached_property
    def traced(self) -> Program:
        """The traced program."""
        return {"jvp": self._jvp, "vjp": self._vjp, "jacobian": self._jacobian, "hvp": self._hvp}[self.kind]()

    @cached_property
    def _base(self) -> Program:
        """The program of the function."""
        return self.function.program_of(self.model, self.kernel_inputs, self.settings)

    @cached_property
    def _configuration_inputs(self) -> list[str]:
        """Configurations among `wrt`; none if q̇ = v, so that entries of q are tangent coordinates."""
        named = [name for name in self.wrt if self.function.shapes.get(name) == "nq"]
        return [] if not named or tangent.is_plain(self.model) else named

    @cached_property
    def configuration_outputs(self) -> list[str]:
        """Outputs that are configurations; none if q̇ = v."""
        is_plain = not self.function.configurations or tangent.is_plain(self.model)
        return [] if is_plain else [*self.function.configurations]

    def _traced_model(self, arrays: Mapping[str, Any]) -> Any:
        """Return the model with the parameters of a call."""
        values = {name: arrays[self._input_names[name]] for name in self.kernel_inputs.parameters}
        return self.model.traced_with(values) if values else self.model

    def _push(self, arrays: Mapping[str, Any], q: Any, direction: Any) -> Any:
        """Return the change of q, (nq,), along a tangent vector, (nv,)."""
        model = self._traced_model(arrays)
        G = tangent.embedding(model, q)
        return tangent.joint_rates(model, q) @ (direction if G is None else G @ direction)

    def _pull(self, arrays: Mapping[str, Any], q: Any, bar: Any) -> Any:
        """Return the gradient on the tangent space, (nv,), of one by the entries of q, (nq,)."""
        model = self._traced_model(arrays)
        G = tangent.embedding(model, q)
        back = tangent.joint_rates(model, q).T @ bar
        return back if G is None else G.T @ back

    def _with_directions(self, program: Program, count: int) -> dict[str, tuple[int, ...]]:
        """Return the shapes of the inputs of a jvp, in which directions of q are tangent vectors, (nv,).

        Directions follow the first `count` inputs.
        """
        shapes = {array.name: array.shape for array in program.inputs}
        for array, name in zip(program.inputs[count:], self.wrt, strict=True):
            shapes[array.name] = (self.model.nv,) if name in self._configuration_inputs else array.shape
        return shapes

    def _pushed(self, arrays: dict[str, Any], directions: Sequence[Any]) -> list[Any]:
        """Return the changes of the entries of the arrays along directions on the tangent space."""
        return [
            self._push(arrays, arrays[self._input_names[name]], d)
            if name in self._configuration_inputs
            else d
            for name, d in zip(self.wrt, directions, strict=True)
        ]

    def _jvp(self) -> Program:
        if self._has_rule:
            return self._jvp_by_rule()
        words = [self._input_names[name] for name in self.wrt]
        program = differentiate.jvp(self._base, words)
        base = self._base
        count = len(base.inputs)
        tangents = len(base.outputs)
        shapes = self._with_directions(program, count)

        def body(*all_arrays: Any) -> dict[str, Any]:
            directions = self._pushed(dict(zip(shapes, all_arrays)), all_arrays[count:])
            results = call_in_trace(program, *all_arrays[:count], *directions)
            for k, array in enumerate(base.outputs):
                if array.name in self.configuration_outputs:
                    results[tangents + k] = tangent.velocities(self.model, results[k]) @ results[tangents + k]
            return {array.name: value for array, value in zip(program.outputs, results, strict=True)}

        return trace(body, shapes, name=program.name)

    def _vjp(self) -> Program:
        words = [self._input_names[name] for name in self.wrt]
        base = self._base
        try:
            program = differentiate.vjp(base, words)
        except DifferentiationError:  # the program has a loop that is not a Newton iteration
            return self._vjp_without_reverse_mode()
        count = len(base.inputs)
        bars = len(base.outputs)
        shapes = {array.name: array.shape for array in program.inputs}
        for array, output in zip(program.inputs[count:], base.outputs, strict=True):
            shapes[array.name] = (
                (self.model.nv,) if output.name in self.configuration_outputs else array.shape
            )

        def body(*all_arrays: Any) -> dict[str, Any]:
            arrays = dict(zip(shapes, all_arrays))
            values = call_in_trace(base, *all_arrays[:count]) if self.configuration_outputs else []
            weights = [
                tangent.velocities(self.model, values[k]).T @ bar
                if output.name in self.configuration_outputs
                else bar
                for k, (output, bar) in enumerate(zip(base.outputs, all_arrays[count:], strict=True))
            ]
            results = call_in_trace(program, *all_arrays[:count], *weights)
            for k, name in enumerate(self.wrt):
                if name in self._configuration_inputs:
                    results[bars + k] = self._pull(arrays, arrays[self._input_names[name]], results[bars + k])
            return {array.name: value for array, value in zip(program.outputs, results, strict=True)}

        return trace(body, shapes, name=program.name)

    def _hvp(self) -> Program:
        """Trace the derivative of the reverse-mode gradient along directions."""
        words = [self._input_names[name] for name in self.wrt]
        back = self._vjp()
        program = differentiate.jvp(back, words)
        count = len(back.inputs)
        shapes = self._with_directions(program, count)

        def body(*all_arrays: Any) -> dict[str, Any]:
            directions = self._pushed(dict(zip(shapes, all_arrays)), all_arrays[count:])
            values = call_in_trace(program, *all_arrays[:count], *directions)
            results = {array.name: value for array, value in zip(program.outputs, values)}
            return {f"d_bar_{word}": results[f"d_bar_{word}"] for word in words}

        return trace(body, shapes, name=f"{self._base.name}_hvp")

    def _jacobian(self) -> Program:
        base = self._base
        rows = [array.name for array in base.outputs]
        if self.output is not None:
            if self.output not in rows:
                raise DifferentiationError(
                    f"{base.name} has no output {self.output!r}; its outputs are: {', '.join(rows)}"
                )
            rows = [self.output]
        if self._has_jacobian_rule:
            return self._jacobian_by_rule(rows)
        shapes = {array.name: array.shape for array in base.inputs}
        words = [self._input_names[name] for name in self.wrt]
        rates_by_input = {name: self._rates(name, shapes) for name in self._configuration_inputs}
        velocities_by_output = {
            array.name: trace(lambda point: tangent.velocities(self.model, point), {"point": array.shape})
            for array in base.outputs
            if array.name in self.configuration_outputs
        }
        return differentiate.jacobians(
            base, rows, words, output_charts=velocities_by_output, input_charts=rates_by_input
        )

    def _rates(self, name: str, shapes: Mapping[str, Any]) -> Program:
        """Trace the rates of a configuration along each independent velocity."""
        words = [name, *(self._input_names[parameter] for parameter in self.kernel_inputs.parameters)]

        def body(*arrays: Any) -> Any:
            values = dict(zip(words, arrays))
            return tangent.rates(self._traced_model(values), values[name])

        return trace(body, {word: shapes[word] for word in words}, name="rates")

    # derivative rules

    @property
    def _conditions(self) -> Mapping[str, Any]:
        """The settings that a rule depends on: options, and the optional arrays that are inputs."""
        return {**self.settings, "optional": self.kernel_inputs.optional}

    @property
    def _has_rule(self) -> bool:
        """True if the derivative rule replaces the differentiated program."""
        rule = self.function.rule
        is_supported = self.kind in ("jacobian", "jvp", "vjp")
        return (
            is_supported
            and rule is not None
            and rule.holds(self.model, self._conditions, self.wrt, self.kind)
        )

    @property
    def _has_jacobian_rule(self) -> bool:
        rule = self.function.rule
        return rule is not None and rule.holds(self.model, self._conditions, self.wrt)

    def _by_rule(self, arrays: Mapping[str, Any]) -> dict[tuple[str, str], Any]:
        """Return the Jacobians of the derivative rule, by output and array."""
        rule = self.function.rule
        base = self._base
        assert rule is not None
        options = {"wanted": self.wrt} if rule.selective else {}
        results = dict(
            zip(
                rule.names,
                rule.jacobians(self._traced_model(arrays), **self._rule_arguments(arrays), **options),
                strict=True,
            )
        )
        several = len(base.outputs) > 1
        return {
            (output.name, name): results[name][k] if several else results[name]
            for name in self.wrt
            for k, output in enumerate(base.outputs)
        }

    def _jacobian_by_rule(self, rows: list[str]) -> Program:
        shapes = {array.name: array.shape for array in self._base.inputs}

        def body(*arrays: Any) -> dict[str, Any]:
            results = self._by_rule(dict(zip(shapes, arrays)))
            return {
                f"d_{row}_d_{self._input_names[name]}": results[row, name]
                for row in rows
                for name in self.wrt
            }

        return trace(body, shapes, name=f"{self._base.name}_jacobian")

    def _vjp_without_reverse_mode(self) -> Program:
        """Trace Jᵀ bar by the derivative rule, or by Jacobians in forward mode."""
        base = self._base
        shapes = {array.name: array.shape for array in base.inputs}
        for output in base.outputs:
            shapes[f"bar_{output.name}"] = (
                (self.model.nv,) if output.name in self.configuration_outputs else output.shape
            )

        def body(*all_arrays: Any) -> dict[str, Any]:
            values, results = self._pulled_back(dict(zip(shapes, all_arrays)))
            if values is None:
                values = call_in_trace(base, *all_arrays[: len(base.inputs)])
            out = {output.name: x for output, x in zip(base.outputs, values, strict=True)}
            return out | {
                f"bar_{self._input_names[name]}": bar for name, bar in zip(self.wrt, results, strict=True)
            }

        return trace(body, shapes, name=f"{base.name}_vjp")

    def _pulled_back(self, arrays: Mapping[str, Any]) -> tuple[Any, list[Any]]:
        """Return the outputs, or None if the rule does not compute them, and Jᵀ bar for each of `wrt`.

        The products come from the pullback of the rule, or from Jacobians.
        """
        rule = self.function.rule
        outputs = self._base.outputs
        rule_applies = rule is not None and rule.holds(self.model, self._conditions, self.wrt, "vjp")
        bars = tuple(arrays[f"bar_{output.name}"] for output in outputs)
        if rule_applies and rule is not None and rule.pullback is not None:
            pulled: tuple[Any, list[Any]] = rule.pullback(
                bars, self.wrt, self._traced_model(arrays), **self._rule_arguments(arrays)
            )
            return pulled
        jacobians = self._by_rule(arrays) if rule_applies else self._in_forward_mode(arrays)
        results = []
        for name in self.wrt:
            pairs = [(np.ravel(bar), jacobians[output.name, name]) for bar, output in zip(bars, outputs)]
            shape = np.shape(pairs[0][1])[np.ndim(bars[0]) :]
            parts = [bar @ np.reshape(J, (bar.size, -1)) for bar, J in pairs]
            results.append(np.reshape(sum(parts[1:], parts[0]), shape))
        return None, results

    def _in_forward_mode(self, arrays: Mapping[str, Any]) -> dict[tuple[str, str], Any]:
        """Return the Jacobians of the program in forward mode, by output and array."""
        base = self._base
        program = self._jacobian()
        results = iter(call_in_trace(program, *(arrays[array.name] for array in base.inputs)))
        return {(output.name, name): next(results) for output in base.outputs for name in self.wrt}

    def _jvp_by_rule(self) -> Program:
        base = self._base
        shapes = {array.name: array.shape for array in base.inputs}
        for name in self.wrt:
            direction_shape = (
                (self.model.nv,) if name in self._configuration_inputs else shapes[self._input_names[name]]
            )
            shapes[f"d_{self._input_names[name]}"] = direction_shape

        def body(*all_arrays: Any) -> dict[str, Any]:
            arrays = dict(zip(shapes, all_arrays))
            rule = self.function.rule
            assert rule is not None and rule.pushforward is not None
            directions = tuple(arrays[f"d_{self._input_names[name]}"] for name in self.wrt)
            values, results = rule.pushforward(
                directions, self.wrt, self._traced_model(arrays), **self._rule_arguments(arrays)
            )
            out = {output.name: x for output, x in zip(base.outputs, values, strict=True)}
            return out | {f"d_{output.name}": x for output, x in zip(base.outputs, results, strict=True)}

        return trace(body, shapes, name=f"{base.name}_jvp")

    def _rule_arguments(self, arrays: Mapping[str, Any]) -> dict[str, Any]:
        """Return the arguments of the body: arrays, and options with the method of kernels."""
        array_arguments = {
            name: arrays[name] for name in (*self.function.required, *self.kernel_inputs.optional)
        }
        return {
            **self.function.with_method(self.model, self.kernel_inputs.optional, self.settings),
            **array_arguments,
        }


def _as_list(names: Iterable[str]) -> list[str]:
    return [names] if isinstance(names, str) else list(names)
