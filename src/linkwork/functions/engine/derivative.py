"""A derivative of a function of a model, on the tangent space: its program, its kernel, and how it is called.

The program of a function is differentiated by its arrays and by parameters of the model. Where an array is a
configuration, its derivative is by δ in integrate(q, δ) at δ = 0, and a change of an output that is one is as
`difference` gives it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from linkwork.compiler.autodiff import differentiate
from linkwork.compiler.ir.program import DTYPES, Program
from linkwork.compiler.ir.trace import trace
from linkwork.compiler.passes.inline import call_in_trace
from linkwork.compiler.runtime.build import build_on, check_target
from linkwork.compiler.runtime.constant import ConstantKernel
from linkwork.errors import DifferentiationError, LinkworkError
from linkwork.functions.engine import tangent
from linkwork.functions.engine.array_labels import ArrayLabels, derivative_array_labels
from linkwork.functions.engine.call_arguments import has_symbols, resolve_device
from linkwork.functions.engine.model_function import KernelKey, ModelFunction
from linkwork.functions.engine.traced_function import Inputs
from linkwork.functions.engine.wrt import wrt_names
from linkwork.lazy import cached_property

Wrt = str | Iterable[str] | None


class Derivative:
    """A derivative of a function of a model. Call it with arrays, any leading batch dimensions, as the
    function itself.

    It takes the function's arrays, then parameters that are inputs (or by name, `parameters={"mass": ...}`),
    then directions or weights; `out=`, `threads=` and `dtype=` as wanted. `inputs` and `outputs` list all of
    them with names and shapes. Inside a trace it is traced. `kernel` gives its kernel, `program` its program,
    which can be differentiated again.
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
        self.wrt, self.given = self._choice(wrt, optional, names)
        if (
            "differentiable" in function.options and not self._has_rule
        ):  # such as `step`, which is shorter without
            self.settings = function.normalize_options(model, {"differentiable": True, **options})
        arrays = (*function.required, *self.given.optional)
        self._word = dict(
            zip((*arrays, *self.given.parameters), function.input_shapes(model, self.given, self.settings))
        )

    def __repr__(self) -> str:
        name = getattr(self.model, "name", "")
        return f"<linkwork {self.kind} of {self.function.__name__} of {name!r} by {', '.join(self.wrt)}>"

    def _choice(
        self, wrt: Wrt, optional: Iterable[str], names: Iterable[str]
    ) -> tuple[tuple[str, ...], Inputs]:
        """By what it is differentiated, and the inputs that this and the caller ask for."""
        f = self.function
        named = (
            f.required
            if wrt is None
            else wrt_names(self.model, wrt, f.shapes, f"{self.kind} of {f.__name__}")
        )
        chosen = tuple(dict.fromkeys(named))
        asked = _as_list(names)
        asked += [name for name in chosen if name not in f.shapes and name not in asked]
        return chosen, f.inputs(
            self.model, [*_as_list(optional), *(n for n in chosen if n in f.optional)], asked
        )

    # what it computes

    @property
    def inputs(self) -> tuple[Any, ...]:
        """Name and shape of each input."""
        return self.kernel().inputs

    @property
    def outputs(self) -> tuple[Any, ...]:
        """Name and shape of each output."""
        return self.kernel().outputs

    @cached_property
    def _program(self) -> Program:
        return {"jvp": self._jvp, "vjp": self._vjp, "jacobian": self._jacobian, "hvp": self._hvp}[self.kind]()

    def program(self) -> Program:
        """The traced program, which `lw.jvp`, `lw.vjp` and `lw.jacobian` take again: there q counts by its
        entries.
        """
        return self._program

    @cached_property
    def _base(self) -> Program:
        """The program of the function itself."""
        return self.function.program_of(self.model, self.given, self.settings)

    @cached_property
    def _charts(self) -> list[str]:
        """The arrays among `wrt` that are configurations and do not change by their velocities themselves."""
        named = [name for name in self.wrt if self.function.shapes.get(name) == "nq"]
        return [] if not named or tangent.is_plain(self.model) else named

    @cached_property
    def _told(self) -> list[str]:
        """The outputs that are such configurations."""
        return (
            []
            if not self.function.configurations or tangent.is_plain(self.model)
            else [*self.function.configurations]
        )

    def _moving(self, arrays: Mapping[str, Any]) -> Any:
        """The model with the parameters of a call."""
        values = {name: arrays[self._word[name]] for name in self.given.parameters}
        return self.model.traced_with(values) if values else self.model

    def _push(self, arrays: Mapping[str, Any], q: Any, direction: Any) -> Any:
        model = self._moving(arrays)
        G = tangent.embedding(model, q)
        return tangent.joint_rates(model, q) @ (direction if G is None else G @ direction)

    def _pull(self, arrays: Mapping[str, Any], q: Any, bar: Any) -> Any:
        model = self._moving(arrays)
        G = tangent.embedding(model, q)
        back = tangent.joint_rates(model, q).T @ bar
        return back if G is None else G.T @ back

    def _with_directions(self, made: Program, given: int) -> dict[str, tuple[int, ...]]:
        """Shapes of the inputs of a jvp, whose first `given` are no directions; a direction of q is a tangent
        vector, (nv,).
        """
        shapes = {array.name: array.shape for array in made.inputs}
        for array, name in zip(made.inputs[given:], self.wrt, strict=True):
            shapes[array.name] = (self.model.nv,) if name in self._charts else array.shape
        return shapes

    def _pushed(self, arrays: dict[str, Any], directions: Sequence[Any]) -> list[Any]:
        """Directions as changes of the arrays."""
        return [
            self._push(arrays, arrays[self._word[name]], d) if name in self._charts else d
            for name, d in zip(self.wrt, directions, strict=True)
        ]

    def _jvp(self) -> Program:
        if self._has_rule:
            return self._jvp_by_rule()
        words = [self._word[name] for name in self.wrt]
        made = differentiate.jvp(self._base, words)
        base = self._base
        given, tangents = len(base.inputs), len(base.outputs)
        shapes = self._with_directions(made, given)

        def body(*all_arrays: Any) -> dict[str, Any]:
            directions = self._pushed(dict(zip(shapes, all_arrays)), all_arrays[given:])
            found = call_in_trace(made, *all_arrays[:given], *directions)
            for k, array in enumerate(base.outputs):
                if array.name in self._told:
                    found[tangents + k] = tangent.velocities(self.model, found[k]) @ found[tangents + k]
            return {array.name: value for array, value in zip(made.outputs, found, strict=True)}

        return trace(body, shapes, name=made.name)

    def _vjp(self) -> Program:
        words = [self._word[name] for name in self.wrt]
        base = self._base
        try:
            made = differentiate.vjp(base, words)
        except DifferentiationError:  # through a loop that is not Newton's method
            return self._vjp_without_reverse_mode()
        given, bars = len(base.inputs), len(base.outputs)
        shapes = {array.name: array.shape for array in made.inputs}
        for array, of in zip(made.inputs[given:], base.outputs, strict=True):
            shapes[array.name] = (self.model.nv,) if of.name in self._told else array.shape

        def body(*all_arrays: Any) -> dict[str, Any]:
            arrays = dict(zip(shapes, all_arrays))
            own = call_in_trace(base, *all_arrays[:given]) if self._told else []
            weights = [
                tangent.velocities(self.model, own[k]).T @ bar if of.name in self._told else bar
                for k, (of, bar) in enumerate(zip(base.outputs, all_arrays[given:], strict=True))
            ]
            found = call_in_trace(made, *all_arrays[:given], *weights)
            for k, name in enumerate(self.wrt):
                if name in self._charts:
                    found[bars + k] = self._pull(arrays, arrays[self._word[name]], found[bars + k])
            return {array.name: value for array, value in zip(made.outputs, found, strict=True)}

        return trace(body, shapes, name=made.name)

    def _hvp(self) -> Program:
        """The change of what reverse mode gives, along directions."""
        words, back = [self._word[name] for name in self.wrt], self._vjp()
        made = differentiate.jvp(back, words)
        given = len(back.inputs)
        shapes = self._with_directions(made, given)

        def body(*all_arrays: Any) -> dict[str, Any]:
            directions = self._pushed(dict(zip(shapes, all_arrays)), all_arrays[given:])
            found = dict(
                zip(
                    (array.name for array in made.outputs),
                    call_in_trace(made, *all_arrays[:given], *directions),
                )
            )
            return {f"d_bar_{word}": found[f"d_bar_{word}"] for word in words}

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
        if self._ruled:
            return self._jacobian_by_rule(rows)
        shapes = {array.name: array.shape for array in base.inputs}
        along = {name: self._rates(name, shapes) for name in self._charts}
        into = {
            array.name: trace(lambda point: tangent.velocities(self.model, point), {"point": array.shape})
            for array in base.outputs
            if array.name in self._told
        }
        return differentiate.jacobians(
            base, rows, [self._word[name] for name in self.wrt], into=into, along=along
        )

    def _rates(self, name: str, shapes: Mapping[str, Any]) -> Program:
        """The program of the directions in which a configuration moves."""
        words = [name, *(self._word[parameter] for parameter in self.given.parameters)]

        def body(*arrays: Any) -> Any:
            given = dict(zip(words, arrays))
            return tangent.rates(self._moving(given), given[name])

        return trace(body, {word: shapes[word] for word in words}, name="rates")

    # a function's own rule

    @property
    def _conditions(self) -> Mapping[str, Any]:
        """What decides whether a rule holds: the options, and which `optional` arrays are given."""
        return {**self.settings, "optional": self.given.optional}

    @property
    def _has_rule(self) -> bool:
        """Whether the function's own rule takes the place of its program."""
        rule = self.function.rule
        known = self.kind in ("jacobian", "jvp", "vjp")
        return known and rule is not None and rule.holds(self.model, self._conditions, self.wrt, self.kind)

    @property
    def _ruled(self) -> bool:
        rule = self.function.rule
        return rule is not None and rule.holds(self.model, self._conditions, self.wrt)

    def _by_rule(self, arrays: Mapping[str, Any]) -> dict[tuple[str, str], Any]:
        """The Jacobians that the function's own rule gives, by output and array."""
        rule = self.function.rule
        base = self._base
        assert rule is not None
        told = {"wanted": self.wrt} if rule.selective else {}
        found = dict(
            zip(
                rule.names,
                rule.jacobians(self._moving(arrays), **self._told_to_rule(arrays), **told),
                strict=True,
            )
        )
        several = len(base.outputs) > 1
        return {
            (of.name, name): found[name][k] if several else found[name]
            for name in self.wrt
            for k, of in enumerate(base.outputs)
        }

    def _jacobian_by_rule(self, rows: list[str]) -> Program:
        shapes = {array.name: array.shape for array in self._base.inputs}

        def body(*arrays: Any) -> dict[str, Any]:
            found = self._by_rule(dict(zip(shapes, arrays)))
            return {f"d_{row}_d_{self._word[name]}": found[row, name] for row in rows for name in self.wrt}

        return trace(body, shapes, name=f"{self._base.name}_jacobian")

    def _vjp_without_reverse_mode(self) -> Program:
        """By the function's own rule, else by Jacobians in forward mode."""
        base = self._base
        shapes = {array.name: array.shape for array in base.inputs}
        for of in base.outputs:
            shapes[f"bar_{of.name}"] = (self.model.nv,) if of.name in self._told else of.shape

        def body(*all_arrays: Any) -> dict[str, Any]:
            values, found = self._pulled_back(dict(zip(shapes, all_arrays)))
            if values is None:
                values = call_in_trace(base, *all_arrays[: len(base.inputs)])
            out = {of.name: x for of, x in zip(base.outputs, values, strict=True)}
            return out | {f"bar_{self._word[name]}": bar for name, bar in zip(self.wrt, found, strict=True)}

        return trace(body, shapes, name=f"{base.name}_vjp")

    def _pulled_back(self, arrays: Mapping[str, Any]) -> tuple[Any, list[Any]]:
        """The outputs, if a rule gives them, and Jᵀ bar for all of `wrt`: by a rule's own pullback, or from
        Jacobians.
        """
        rule = self.function.rule
        outputs = self._base.outputs
        ruled = rule is not None and rule.holds(self.model, self._conditions, self.wrt, "vjp")
        bars = tuple(arrays[f"bar_{of.name}"] for of in outputs)
        if ruled and rule is not None and rule.pullback is not None:
            pulled: tuple[Any, list[Any]] = rule.pullback(
                bars, self.wrt, self._moving(arrays), **self._told_to_rule(arrays)
            )
            return pulled
        jacobians = self._by_rule(arrays) if ruled else self._in_forward_mode(arrays)
        found = []
        for name in self.wrt:
            pairs = [(np.ravel(bar), jacobians[of.name, name]) for bar, of in zip(bars, outputs)]
            shape = np.shape(pairs[0][1])[np.ndim(bars[0]) :]
            parts = [bar @ np.reshape(J, (bar.size, -1)) for bar, J in pairs]
            found.append(np.reshape(sum(parts[1:], parts[0]), shape))
        return None, found

    def _in_forward_mode(self, arrays: Mapping[str, Any]) -> dict[tuple[str, str], Any]:
        """Jacobians by output and array, of the program."""
        base = self._base
        program = self._jacobian()
        found = iter(call_in_trace(program, *(arrays[array.name] for array in base.inputs)))
        return {(of.name, name): next(found) for of in base.outputs for name in self.wrt}

    def _jvp_by_rule(self) -> Program:
        base = self._base
        shapes = {array.name: array.shape for array in base.inputs}
        for name in self.wrt:
            moving = (self.model.nv,) if name in self._charts else shapes[self._word[name]]
            shapes[f"d_{self._word[name]}"] = moving

        def body(*all_arrays: Any) -> dict[str, Any]:
            arrays = dict(zip(shapes, all_arrays))
            rule = self.function.rule
            assert rule is not None and rule.pushforward is not None
            directions = tuple(arrays[f"d_{self._word[name]}"] for name in self.wrt)
            values, found = rule.pushforward(
                directions, self.wrt, self._moving(arrays), **self._told_to_rule(arrays)
            )
            out = {of.name: x for of, x in zip(base.outputs, values, strict=True)}
            return out | {f"d_{of.name}": x for of, x in zip(base.outputs, found, strict=True)}

        return trace(body, shapes, name=f"{base.name}_jvp")

    def _told_to_rule(self, arrays: Mapping[str, Any]) -> dict[str, Any]:
        """What the body takes: arrays, and options with the method that is taken outside too."""
        own = {name: arrays[name] for name in (*self.function.required, *self.given.optional)}
        return {**self.function.with_method(self.model, self.given.optional, self.settings), **own}

    # kernels

    def kernel(self, *, target: str = "cpu", dtype: str = "float64", wait: bool = False) -> Any:
        """The kernel; the same one whenever the same derivative of the same model is asked for."""
        check_target(target)
        if dtype not in DTYPES:
            raise LinkworkError(f"dtype: expected one of {', '.join(DTYPES)}, got {dtype!r}")
        which = (self.function, self.kind, self.wrt, self.output)
        key = KernelKey(which, target, dtype, self.given, tuple(self.settings.items()))
        kernel = self.model.kernels.get(key)
        if kernel is None:
            kernel = self.model.kernels[key] = self._build(target, dtype)
            named = self.array_labels(kernel)
            kernel.array_labels = (
                named if kernel.array_labels in (None, named) else {}
            )  # models with one program share it
        return kernel.wait() if wait else kernel

    def array_labels(self, made: Any) -> dict[str, ArrayLabels]:
        """What the entries of its kernel or program are, by the names of arrays there."""
        f = self.function
        words = {word: name for name, word in self._word.items()}
        settings = self.settings
        told = f.configurations
        return derivative_array_labels(
            f.__name__, f.shapes, made.inputs, made.outputs, self.model, settings, words, told
        )

    def _build(self, target: str, dtype: str) -> Any:
        if self.model.nq == 0 and not self.given.parameters:
            return ConstantKernel(self._program, dtype)
        return build_on(target, self.identity(), self.program, dtype)

    def identity(self) -> str | None:
        """What decides the program, given this package's source; None where others' code has a say."""
        f = self.function
        rule = [code for code in f.rule[1:] if code is not None] if f.rule else []
        base = f.identity(self.model, self.given, self.settings, *rule)
        return None if base is None else repr((self.kind, self.wrt, self.output, base))

    def __call__(self, *args: Any, **named: Any) -> Any:
        for name in named:
            if name in self.function.optional and name not in self.given.optional:
                raise TypeError(f"{self!r} has no input {name}: it gets one with optional={(name,)!r}")
        device, dtype = resolve_device(self.function.__name__, named, (*args, *named.values()))
        how = {word: named.pop(word) for word in ("out", "threads") if word in named}
        values = named.pop("parameters", None)
        if values:
            args, named = self._placed(args, named, values)
        if any(map(has_symbols, (*args, *named.values()))):
            program = self._program
            found = call_in_trace(program, *self._in_order(program, args, named))
            return found[0] if len(found) == 1 else tuple(found)
        return self.kernel(target=device, dtype=dtype)(*args, **named, **how)

    def _in_order(self, program: Program, args: tuple[Any, ...], named: dict[str, Any]) -> list[Any]:
        """The arrays of a call inside a trace, as the program takes them."""
        names = [array.name for array in program.inputs]
        if len(args) + len(named) != len(names) or set(names[len(args) :]) != set(named):
            raise TypeError(f"{self!r} takes the arrays {', '.join(names)}")
        return [*args, *(named[name] for name in names[len(args) :])]

    def _placed(
        self, args: tuple[Any, ...], named: dict[str, Any], values: Mapping[str, Any]
    ) -> tuple[tuple[Any, ...], Any]:
        """The arrays of a call whose parameters are given by name, in their places."""
        missing = set(self.given.parameters) ^ set(values)
        if missing:
            raise LinkworkError(f"{self!r} takes the parameters {', '.join(self.given.parameters) or 'none'}")
        first = len(self.function.required) + len(self.given.optional)
        behind = [values[name] for name in self.given.parameters]
        if len(args) >= first:
            return (*args[:first], *behind, *args[first:]), named
        return args, named | {self._word[name]: values[name] for name in self.given.parameters}


def _as_list(names: Iterable[str]) -> list[str]:
    return [names] if isinstance(names, str) else list(names)
