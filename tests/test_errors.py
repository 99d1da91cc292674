"""Every wrong call fails when it is made, and says which argument, what it was, and what is accepted."""
from __future__ import absolute_import, division, print_function

import os
import subprocess
import sys

import numpy as np
import pytest
from ways import Embedding, Toy, each_kind, each_way, exactly

import tf1accum
from tf1accum import errors
from tf1accum._compat import tf


def sgd():
    return tf.train.GradientDescentOptimizer(1.)


def entry_wrapper(**fields):
    """AccumulatingOptimizer"""
    return tf1accum.AccumulatingOptimizer(sgd(), **fields)


def entry_build(**fields):
    """build"""
    w = tf.Variable(0.)
    return tf1accum.build(sgd(), w * 2., **fields)


def entry_accumulator(**fields):
    """GradientAccumulator"""
    return tf1accum.GradientAccumulator([tf.Variable(0.)], **fields)


def entry_config(**fields):
    """AccumulationConfig"""
    return tf1accum.AccumulationConfig(**fields)


ENTRIES = [entry_wrapper, entry_build, entry_accumulator, entry_config]
each_entry = pytest.mark.parametrize("entry", ENTRIES, ids=[entry.__doc__ for entry in ENTRIES])
each_entry_of_ops = pytest.mark.parametrize("entry", ENTRIES[:3], ids=[entry.__doc__ for entry in ENTRIES[:3]])


class raises(object):
    """Asserts that a block raises `kind`, an AccumulationError, with all fragments in its message."""

    def __init__(self, kind, *fragments):
        self._kind = kind
        self._fragments = fragments

    def __enter__(self):
        return self

    def __exit__(self, error_type, error, traceback):
        assert error_type is not None, "nothing was raised"
        if not isinstance(error, (AssertionError, errors.AccumulationError)):
            return False
        assert isinstance(error, self._kind) and isinstance(error, errors.AccumulationError), repr(error)
        for fragment in self._fragments:
            assert fragment in str(error), "no %r in: %s" % (fragment, error)
        return True


@each_entry
@pytest.mark.parametrize("value, kind", [
    (0, ValueError), (-1, ValueError), (True, TypeError), (False, TypeError), (2., TypeError), (2.5, TypeError),
    ("2", TypeError), ([2], TypeError), (np.float32(2), TypeError), (np.int64(0), ValueError), (int, TypeError),
], ids=repr)
def test_steps(entry, value, kind):
    with raises(kind, "`steps` must be an int of at least 1", "Received: steps=", repr(value)):
        entry(steps=value)


def test_steps_none_is_refused_by_the_configuration():
    with raises(TypeError, "`steps` must be an int of at least 1", "Received: steps=None"):
        tf1accum.AccumulationConfig(steps=None)


def test_steps_as_a_tensor_says_what_to_write():
    with raises(TypeError, "`steps` must be", "lambda updates: tensor"):
        entry_wrapper(steps=tf.constant(2))


@pytest.mark.parametrize("value", [np.int64(3), np.int32(3), 3], ids=["int64", "int32", "int"])
def test_steps_of_numpy_are_ints(value):
    assert type(tf1accum.AccumulationConfig(steps=value).steps) is int


@each_entry
@pytest.mark.parametrize("field, value, kind, accepted", [
    ("reduction", "avg", ValueError, "'mean', 'sum'"),
    ("reduction", None, TypeError, "'mean', 'sum'"),
    ("reduction", 1, TypeError, "'mean', 'sum'"),
    ("sparse", "row", ValueError, "'rows', 'dense'"),
    ("sparse", True, TypeError, "'rows', 'dense'"),
    ("nonfinite", "ignore", ValueError, "'propagate', 'skip', 'skip_cycle', 'error'"),
    ("nonfinite", False, TypeError, "'propagate', 'skip', 'skip_cycle', 'error'"),
    ("clip_global_norm", 0, ValueError, "a finite number above 0, or None"),
    ("clip_global_norm", -1., ValueError, "a finite number above 0, or None"),
    ("clip_global_norm", float("nan"), ValueError, "a finite number above 0, or None"),
    ("clip_global_norm", float("inf"), ValueError, "a finite number above 0, or None"),
    ("clip_global_norm", "1", TypeError, "a finite number above 0, or None"),
    ("clip_global_norm", True, TypeError, "a finite number above 0, or None"),
    ("accumulator_dtype", tf.int32, ValueError, "a floating dtype or its name, or None"),
    ("accumulator_dtype", "float", None, None),
    ("accumulator_dtype", "fluffy", TypeError, "a floating dtype or its name, or None"),
    ("save_accumulators", 1, TypeError, "True or False"),
    ("save_accumulators", None, TypeError, "True or False"),
], ids=lambda value: repr(value)[:20])
def test_fields(entry, field, value, kind, accepted):
    if kind is None:
        assert entry_config(**{field: value}).accumulator_dtype == "float32"
        return
    with raises(kind, "`%s` must be" % field, accepted, "Received: %s=" % field, repr(value)):
        entry(**{field: value})


@each_entry_of_ops
def test_unknown_keyword(entry):
    with raises(TypeError, "'step'", "steps, reduction"):
        entry(step=2)


@each_entry_of_ops
def test_config_together_with_keywords(entry):
    with raises(TypeError, "`config` must be None when reduction is given", "config.replace(reduction=...)"):
        entry(config=tf1accum.AccumulationConfig(2), reduction="sum")


@pytest.mark.parametrize("entry", [entry_wrapper, entry_build], ids=["AccumulatingOptimizer", "build"])
def test_config_together_with_steps(entry):
    with raises(TypeError, "`config` must be None when steps is given"):
        entry(config=tf1accum.AccumulationConfig(2), steps=2)


@each_entry_of_ops
@pytest.mark.parametrize("value", [{"steps": 2}, 2, "mean"], ids=repr)
def test_not_a_config(entry, value):
    with raises(TypeError, "`config` must be an AccumulationConfig, or None", repr(value)):
        entry(config=value)


@each_entry_of_ops
def test_gradient_transform_that_is_no_function(entry):
    with raises(TypeError, "`gradient_transform` must be a function", "gradient_transform=0.5"):
        entry(gradient_transform=0.5)


class TestOptimizer(object):
    """What is wrapped must be an optimizer of tf.train."""

    @pytest.mark.parametrize("value", ["adam", None, 0.1, tf.train.AdamOptimizer],
                             ids=["name", "None", "rate", "class"])
    def test_not_an_optimizer(self, value):
        w = tf.Variable(0.)
        for call in (lambda: tf1accum.AccumulatingOptimizer(value, steps=2),
                     lambda: tf1accum.build(value, w * 2., steps=2)):
            with raises(TypeError, "`optimizer` must be a tf.compat.v1.train.Optimizer", "Received: optimizer="):
                call()

    def test_keras_optimizer(self):
        import tensorflow
        keras_optimizer = tensorflow.keras.optimizers.SGD(0.1)
        accumulator = tf1accum.GradientAccumulator([tf.Variable(0.)], steps=2)
        accumulator.accumulate_op([(tf.constant(1.), accumulator.variables[0])])
        for call in (lambda: tf1accum.AccumulatingOptimizer(keras_optimizer, steps=2),
                     lambda: tf1accum.build(keras_optimizer, accumulator.variables[0] * 2., steps=2),
                     lambda: accumulator.apply_op(keras_optimizer)):
            with raises(TypeError, "must be a tf.compat.v1.train.Optimizer", "Keras"):
                call()


class TestGradients(object):
    """`grads_and_vars`, to each call that takes it."""

    CALLS = {
        "apply_gradients": lambda pairs, v: entry_wrapper(steps=2).apply_gradients(pairs),
        "accumulate_op": lambda pairs, v: tf1accum.GradientAccumulator([v], steps=2).accumulate_op(pairs),
    }
    each_call = pytest.mark.parametrize("call", sorted(CALLS))

    @each_call
    def test_all_none(self, call):
        v = tf.Variable(1., name="unreached")
        with raises(ValueError, "No gradients provided", "unreached"):
            self.CALLS[call]([(None, v)], v)

    @each_call
    def test_empty(self, call):
        with raises(ValueError, "No variables provided"):
            self.CALLS[call]([], tf.Variable(1.))

    @pytest.mark.parametrize("entry", ["wrapper", "build"])
    def test_a_loss_that_reaches_no_variable(self, entry):
        tf.Variable(1., name="unreached")
        with pytest.raises(ValueError, match="No gradients provided"):
            if entry == "wrapper":
                entry_wrapper(steps=2).minimize(tf.constant(1.))
            else:
                tf1accum.build(sgd(), tf.constant(1.), steps=2)

    @each_call
    @pytest.mark.parametrize("pairs", [3, [3], [(1., 2., 3.)]], ids=repr)
    def test_not_pairs(self, call, pairs):
        with raises(TypeError, "`grads_and_vars` must be a list of (gradient, variable) pairs", repr(pairs)[:3]):
            self.CALLS[call](pairs, tf.Variable(1.))

    @each_call
    def test_a_tensor_in_place_of_a_variable(self, call):
        with raises(TypeError, "`grads_and_vars` must be tf.Variable objects"):
            self.CALLS[call]([(tf.constant(1.), tf.constant(1.))], tf.Variable(1.))

    @each_call
    @each_kind
    @pytest.mark.parametrize("shape, gradient", [
        ([2], lambda: tf.ones([3])), ([2], lambda: tf.ones([2, 2])), ([2], lambda: tf.ones([])),
        ([2, 2], lambda: tf.IndexedSlices(tf.ones([1, 3]), tf.constant([0]))),
        ([], lambda: tf.IndexedSlices(tf.ones([1]), tf.constant([0]))),
    ], ids=["length", "rank", "scalar", "row", "row_of_scalar"])
    def test_wrong_shape(self, call, resource, shape, gradient):
        v = tf.Variable(tf.ones(shape), name="v", use_resource=resource)
        with raises(ValueError, "gradient has the variable's shape", "for variable 'v:0'"):
            self.CALLS[call]([(gradient(), v)], v)

    @each_call
    def test_integer_gradient(self, call):
        v = tf.Variable(1., name="v")
        with raises(TypeError, "gradient is floating", "for variable 'v:0'"):
            self.CALLS[call]([(tf.constant(1), v)], v)

    def test_variable_of_another_graph(self):
        with tf.Graph().as_default():
            stranger = tf.Variable(1., name="stranger")
        for call in (lambda: tf1accum.GradientAccumulator([stranger]),
                     lambda: entry_wrapper(steps=2).apply_gradients([(tf.constant(1.), stranger)])):
            with raises(ValueError, "variables of the default graph", "stranger"):
                call()

    def test_variable_that_the_accumulator_does_not_know(self):
        v, other = tf.Variable(1., name="v"), tf.Variable(1., name="other")
        with raises(ValueError, "`grads_and_vars` must be pairs for known variables", "other:0", "Known: v:0"):
            tf1accum.GradientAccumulator([v]).accumulate_op([(tf.constant(1.), other)])

    @pytest.mark.parametrize("variables", [[], 3, ["w"], None], ids=repr)
    def test_accumulator_of_no_variables(self, variables):
        with raises((TypeError, ValueError), "`variables` must be", "variable"):
            tf1accum.GradientAccumulator(variables)

    @pytest.mark.parametrize("result, kind", [(None, TypeError), ([], ValueError), (1, TypeError)], ids=repr)
    def test_transform_that_returns_no_pairs(self, result, kind):
        w = tf.Variable(0.)
        with raises(kind, "gradient_transform"):
            tf1accum.build(sgd(), w * 2., steps=2, gradient_transform=lambda pairs: result)


@each_kind
@pytest.mark.parametrize("value, kind", [
    ("3", TypeError), (True, TypeError), (1j, TypeError), ([1., 2.], ValueError), (object(), TypeError)],
    ids=["string", "bool", "complex", "vector", "object"])
def test_weight(value, kind, resource):
    w = tf.Variable(0., use_resource=resource)
    calls = [lambda: entry_wrapper(steps=2).minimize(w * 2., weight=value),
             lambda: entry_wrapper(steps=1).minimize(w * 2., weight=value),
             lambda: tf1accum.build(sgd(), w * 2., steps=2, weight=value),
             lambda: tf1accum.GradientAccumulator([w]).accumulate_op([(tf.constant(1.), w)], weight=value)]
    for call in calls:
        with raises(kind, "`weight` must be a real scalar", "Received: weight="):
            call()


@pytest.mark.parametrize("value", [3, tf.constant, "global_step"], ids=["int", "function", "string"])
def test_global_step_that_is_no_variable(value):
    w = tf.Variable(0.)
    for call in (lambda: entry_wrapper(steps=2).minimize(w * 2., global_step=value),
                 lambda: tf1accum.build(sgd(), w * 2., steps=2, global_step=value)):
        with raises(TypeError, "`global_step` must be an integer scalar variable"):
            call()


def test_global_step_of_a_wrong_dtype_or_shape():
    w = tf.Variable(0.)
    for step in (tf.Variable(0., trainable=False), tf.Variable([0], trainable=False)):
        with raises((TypeError, ValueError), "`global_step` must be an integer scalar variable"):
            entry_wrapper(steps=2).minimize(w * 2., global_step=step)


class TestStepsCallable(object):
    """What a schedule returns."""

    @pytest.mark.parametrize("result, kind", [
        (2., TypeError), (0, ValueError), (-3, ValueError), ([2, 3], ValueError), ("2", TypeError)], ids=repr)
    def test_result(self, result, kind):
        w = tf.Variable(0.)
        with raises(kind, "`steps` must be a callable that returns an integer scalar of at least 1"):
            entry_wrapper(steps=lambda updates: tf.convert_to_tensor(result)).minimize(w * 2.)

    def test_float_tensor(self):
        w = tf.Variable(0.)
        with raises(TypeError, "`steps` must be a callable that returns an integer scalar", "float"):
            entry_wrapper(steps=lambda updates: tf.cast(updates, tf.float32) + 1.).minimize(w * 2.)

    def test_to_dict(self):
        with raises(TypeError, "`steps` must be an int to be serialised", "config.replace(steps=...)"):
            tf1accum.AccumulationConfig(steps=lambda updates: 2).to_dict()

    def test_run_cycles(self):
        w = tf.Variable(0.)
        ops = tf1accum.build(sgd(), w * 2., steps=lambda updates: 2)
        with tf.Session() as session:
            with raises(TypeError, "`steps` must be an int", "run_cycle"):
                tf1accum.PhaseRunner(session, ops).run_cycles([])


def test_from_dict_with_unknown_keys():
    with raises(TypeError, "'step'", "steps, reduction"):
        tf1accum.AccumulationConfig.from_dict({"step": 2})
    with raises(TypeError, "must be a dict", "[2]"):
        tf1accum.AccumulationConfig.from_dict([2])


class TestNotBuilt(object):
    """Asked before there is anything to ask for."""

    @pytest.mark.parametrize("name", ["held", "updates", "micro_steps", "skipped"])
    def test_tensors_before_minimize(self, name):
        with raises(errors.NotBuiltError, name, "minimize"):
            getattr(entry_wrapper(steps=2), name)

    @pytest.mark.parametrize("name", ["flush", "drop"])
    def test_ops_before_minimize(self, name):
        with raises(errors.NotBuiltError, name, "minimize"):
            getattr(entry_wrapper(steps=2), name)()

    def test_is_a_runtime_error(self):
        with pytest.raises(RuntimeError):
            entry_wrapper(steps=2).held  # noqa: B018

    def test_another_graph_has_its_own(self):
        wrapper = entry_wrapper(steps=2)
        wrapper.minimize(tf.Variable(0.) * 2.)
        with tf.Graph().as_default():
            with raises(errors.NotBuiltError, "default graph"):
                wrapper.flush()

    @pytest.mark.parametrize("name", ["normalize_op", "apply_op"])
    def test_phases_before_accumulate(self, name):
        accumulator = entry_accumulator(steps=2)
        with raises(errors.NotBuiltError, "accumulate_op"):
            accumulator.apply_op(sgd()) if name == "apply_op" else accumulator.normalize_op()

    def test_two_accumulations_are_asked_one_by_one(self):
        v, wrapper = tf.Variable(0.), entry_wrapper(steps=2)
        for _ in range(2):
            wrapper.apply_gradients([(tf.constant(1.), v)])
        with raises(errors.AccumulationError, "2 accumulations", "optimizer.accumulators[i].held"):
            wrapper.held  # noqa: B018
        assert len(wrapper.accumulators) == 2

    def test_an_accumulate_op_after_normalize_for_new_variables(self):
        a, b = tf.Variable(0.), tf.Variable(0.)
        accumulator = tf1accum.GradientAccumulator([a, b])
        accumulator.accumulate_op([(tf.constant(1.), a)])
        accumulator.normalize_op()
        with raises(errors.AccumulationError, "Build every accumulate op before them"):
            accumulator.accumulate_op([(tf.constant(1.), b)])
        with raises(errors.AccumulationError, "weight", "Build every accumulate op before them"):
            accumulator.accumulate_op([(tf.constant(1.), a)], weight=2.)


class TestEmptyCycle(object):
    """Apply when nothing is held."""

    @each_kind
    @pytest.mark.parametrize("way", ["phases", "low_level"])
    @pytest.mark.parametrize("when", ["at_first", "after_an_update", "after_zero"])
    def test_apply(self, way, resource, when):
        with Toy(way, resource) as toy:
            w, x = toy.variable("w", 0.), tf.placeholder(tf.float32, [])
            embedding = Embedding(toy)
            optimizer = tf.train.MomentumOptimizer(1., 0.5)
            step = toy.step_variable()
            toy.train(optimizer, w * x + embedding.loss, steps=2, global_step=step)
            toy.start()
            feed = embedding.batch([1], [1.])
            feed[x] = 1.
            if when == "after_an_update":
                toy.feeds([feed, feed])
            elif when == "after_zero":
                toy.feeds([feed])
                toy.run(toy.training.drop_op)
            state = [w, embedding.table, step, optimizer.get_slot(w, "momentum"), toy.training.updates]
            before = toy.run(state)
            for _ in range(5):
                with pytest.raises(tf.errors.InvalidArgumentError, match="cycle is empty"):
                    toy.run(toy.training.apply)
                with pytest.raises(tf.errors.InvalidArgumentError, match="cycle is empty"):
                    toy.run([gradient for gradient, _ in toy.training.normalized])
            for value, old in zip(toy.run(state), before):
                exactly(value, old)
            toy.feeds([feed, feed])
            assert toy.counts[1:] == (2 if when == "after_an_update" else 1, 0, 0)

    def test_flush_is_no_error(self):
        with Toy("wrapper") as toy:
            w = toy.variable("w", 0.)
            toy.train(sgd(), w * 2., steps=2)
            toy.start()
            toy.run(toy.training.flush_op)
            assert toy.run(w) == 0. and toy.counts == (0, 0, 0, 0)


class TestPhaseLeak(object):
    """Apply depends on nothing of the model, or is not built."""

    @staticmethod
    def _model():
        x = tf.placeholder(tf.float32, [], name="model_input")
        w = tf.Variable(1., name="w")
        return x, w, tf.multiply(w * x, 2., name="the_loss")

    CALLS = {
        "build": lambda optimizer, loss, **kwargs: tf1accum.build(optimizer, loss, steps=2, **kwargs),
        "flush": lambda optimizer, loss, **kwargs: _flush(optimizer, loss, **kwargs),
    }
    each_call = pytest.mark.parametrize("call", sorted(CALLS))

    @each_call
    @pytest.mark.parametrize("uses", ["loss", "placeholder"])
    def test_transform_that_uses_the_model(self, call, uses):
        x, w, loss = self._model()
        used = loss if uses == "loss" else x
        with raises(errors.PhaseLeakError, "depends on a placeholder of the model", "<- ", "model_input (Placeholder)",
                    *(["the_loss (Mul)"] if uses == "loss" else [])):
            self.CALLS[call](sgd(), loss, gradient_transform=lambda pairs: [(g * used, v) for g, v in pairs])

    @each_call
    def test_learning_rate_from_the_loss(self, call):
        x, w, loss = self._model()
        with raises(errors.PhaseLeakError, "model_input", "the_loss"):
            self.CALLS[call](tf.train.GradientDescentOptimizer(loss), loss)

    @each_call
    def test_data_source(self, call):
        iterator = tf.data.make_one_shot_iterator(tf.data.Dataset.from_tensor_slices([1., 2.]))
        x = iterator.get_next()
        w = tf.Variable(1., name="w")
        with raises(errors.PhaseLeakError, "an input of the model", "IteratorGetNext"):
            self.CALLS[call](tf.train.GradientDescentOptimizer(x), w * x)

    def test_accumulate_op_under_apply(self):
        v = tf.Variable(0., name="v")
        accumulator = tf1accum.GradientAccumulator([v])
        accumulate = accumulator.accumulate_op([(tf.constant(1.), v)], name="add_up")
        with tf.control_dependencies([accumulate]):
            rate = tf.constant(1.) * 1.
        with raises(errors.PhaseLeakError, "an accumulate op", "add_up"):
            accumulator.apply_op(tf.train.GradientDescentOptimizer(rate))

    def test_is_a_value_error(self):
        assert issubclass(errors.PhaseLeakError, ValueError)

    def test_fed_learning_rate_is_allowed_and_listed(self):
        x, w, loss = self._model()
        rate = tf.placeholder(tf.float32, [], name="rate")
        ops = tf1accum.build(tf.train.GradientDescentOptimizer(rate), loss, steps=2)
        assert [placeholder.op.name for placeholder in ops.apply_placeholders] == ["rate"]
        with tf.Session() as session:
            session.run(tf.global_variables_initializer())
            session.run(ops.accumulate, {x: 3.})
            session.run(ops.apply, {rate: 0.5})
            assert session.run(w) == 1. - 3.

    def test_nothing_fed_nothing_listed(self):
        _, _, loss = self._model()
        assert tf1accum.build(sgd(), loss, steps=2).apply_placeholders == []


def _flush(optimizer, loss, **kwargs):
    wrapper = tf1accum.AccumulatingOptimizer(optimizer, steps=2, **kwargs)
    wrapper.minimize(loss)
    return wrapper.flush()


class TestTail(object):
    """TailHook's and run_cycles' `tail`."""

    @pytest.mark.parametrize("tail, kind", [("keep", ValueError), (None, TypeError), (True, TypeError)], ids=repr)
    def test_tail(self, tail, kind):
        wrapper = entry_wrapper(steps=2)
        ops = entry_build(steps=2)
        with raises(kind, "`tail` must be one of 'flush', 'drop'", repr(tail)):
            tf1accum.TailHook(wrapper, tail=tail)
        with tf.Session() as session:
            with raises(kind, "`tail` must be one of 'flush', 'drop'", repr(tail)):
                tf1accum.PhaseRunner(session, ops).run_cycles([], tail=tail)

    def test_hook_of_a_bare_optimizer(self):
        with raises(TypeError, "`optimizer` must be an AccumulatingOptimizer"):
            tf1accum.TailHook(sgd())

    def test_runner_of_something_else(self):
        with raises(TypeError, "`sess` must be a session"):
            tf1accum.PhaseRunner(None, entry_build(steps=2))
        with tf.Session() as session:
            with raises(TypeError, "`ops` must be the AccumulationOps"):
                tf1accum.PhaseRunner(session, entry_wrapper(steps=2))


EAGER = """
from __future__ import print_function
import os
os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
import tensorflow as tensorflow
import tf1accum
from tf1accum._compat import tf
tf.enable_eager_execution()
v = tensorflow.Variable(1.)
optimizer = tf.train.GradientDescentOptimizer(1.)
with tf.Graph().as_default():
    wrapper = tf1accum.AccumulatingOptimizer(optimizer, steps=2)
calls = [
    lambda: tf1accum.AccumulatingOptimizer(optimizer, steps=2),
    lambda: tf1accum.build(optimizer, v * 2., steps=2),
    lambda: tf1accum.GradientAccumulator([v], steps=2),
    lambda: wrapper.minimize(lambda: v * 2.),
    lambda: wrapper.compute_gradients(lambda: v * 2.),
    lambda: wrapper.apply_gradients([(tf.constant(1.), v)]),
    lambda: tensorflow.function(lambda: wrapper.apply_gradients([(tf.constant(1.), v)]), autograph=False)(),
]
for index, call in enumerate(calls):
    try:
        call()
    except tf1accum.EagerModeError as error:
        assert isinstance(error, RuntimeError)
        assert "disable_eager_execution" in str(error), error
        print("refused", index)
assert v.numpy() == 1.
"""


@pytest.mark.slow
def test_eager_mode_says_what_to_do():
    root = os.path.dirname(os.path.dirname(os.path.abspath(tf1accum.__file__)))
    environment = dict(os.environ, PYTHONPATH=root)
    process = subprocess.Popen([sys.executable, "-c", EAGER], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                               env=environment)
    out, err = process.communicate()
    assert process.returncode == 0, err.decode("utf-8", "replace")[-2000:]
    assert out.decode().split("\n")[:-1] == ["refused %d" % index for index in range(7)], err.decode()[-2000:]


def test_the_tree_of_errors():
    for name, builtin in [("ArgumentValueError", ValueError), ("ArgumentTypeError", TypeError),
                          ("PhaseLeakError", ValueError), ("NotBuiltError", RuntimeError),
                          ("EagerModeError", RuntimeError)]:
        kind = getattr(tf1accum, name)
        assert issubclass(kind, tf1accum.AccumulationError) and issubclass(kind, builtin)


@each_way
def test_what_is_refused_leaves_no_half_built_training(way):
    # The wrapper can be used after a call that was refused.
    with Toy(way) as toy:
        w, x = toy.variable("w", 0.), tf.placeholder(tf.float32, [])
        with pytest.raises((TypeError, ValueError)):
            toy.train(sgd(), w * x, steps=2, weight="3")
        toy.train(sgd(), w * x, steps=2)
        toy.start()
        assert toy.feed(x, [2., 6.], w) == [0., -4.]
