"""Sessions of every kind start with nothing but what they did without accumulation."""
from __future__ import absolute_import, division, print_function

import numpy as np
import pytest
from ways import control_flow_of, each_control_flow, each_kind

import tf1accum
from tf1accum._compat import tf

# Micro-gradients of `w` 1,3 | 5,7 | 9 with N=2, rate 1; the table's row 1 gets twice that.
GRADIENTS = [1., 3., 5., 7., 9.]


def has_estimator():
    """Returns whether this TensorFlow has Estimators, which left after 2.15."""
    try:
        return callable(tf.estimator.Estimator)
    except (AttributeError, ImportError):
        return False


class Model(object):
    """A weight and a table in the default graph, trained by the one-line patch."""

    def __init__(self, resource=True, save_accumulators=False):
        self.step = tf.train.get_or_create_global_step()
        self.w = tf.Variable(0., name="w", use_resource=resource)
        self.table = tf.Variable(np.zeros([3, 1], np.float32), name="table", use_resource=resource)
        self.x = tf.placeholder(tf.float32, [])
        loss = self.w * self.x + tf.reduce_sum(tf.gather(self.table, [1, 1]) * self.x)
        self.optimizer = tf1accum.AccumulatingOptimizer(
            tf.train.MomentumOptimizer(1., 0.), steps=2, save_accumulators=save_accumulators)
        self.train = self.optimizer.minimize(loss, global_step=self.step)
        self.flush = self.optimizer.flush()

    def run(self, session):
        """Trains, flushes, and compares."""
        assert session.run(self.optimizer.held) == 0
        for gradient in GRADIENTS:
            session.run(self.train, {self.x: gradient})
        assert session.run([self.w, self.step, self.optimizer.held]) == [-8., 2, 1]
        session.run(self.flush)
        w, table, step, held = session.run([self.w, self.table, self.step, self.optimizer.held])
        assert (w, step, held) == (-17., 3, 0)
        assert table.ravel().tolist() == [0., -34., 0.]


each_saving = pytest.mark.parametrize("save_accumulators", [False, True], ids=["not_saved", "saved"])


@each_kind
@each_control_flow
@each_saving
def test_plain_session(resource, control_flow, save_accumulators):
    with control_flow_of(control_flow):
        model = Model(resource, save_accumulators)
        init = tf.global_variables_initializer()
        with tf.Session() as session:
            session.run(init)
            assert session.run(tf.report_uninitialized_variables()).size == 0
            model.run(session)


@each_kind
def test_interactive_session(resource):
    model = Model(resource)
    session = tf.InteractiveSession()
    try:
        tf.global_variables_initializer().run()
        model.train.run({model.x: 1.})
        model.train.run({model.x: 3.})
        assert model.w.eval() == -2.
    finally:
        session.close()


@each_kind
@each_control_flow
@each_saving
def test_monitored_training_session(resource, control_flow, save_accumulators, tmpdir):
    with control_flow_of(control_flow):
        model = Model(resource, save_accumulators)
        with tf.train.MonitoredTrainingSession(checkpoint_dir=str(tmpdir)) as session:
            model.run(session)


@each_kind
def test_two_monitored_sessions_over_one_graph(resource):
    # The second is a new session: its state starts anew, and so does the cycle.
    model = Model(resource)
    for _ in range(2):
        with tf.train.MonitoredTrainingSession() as session:
            model.run(session)
            session.run(model.train, {model.x: 100.})


@each_kind
@each_saving
def test_monitored_session_with_a_scaffold_of_its_own(resource, save_accumulators):
    model = Model(resource, save_accumulators)
    creator = tf.train.ChiefSessionCreator(tf.train.Scaffold(
        init_op=tf.global_variables_initializer(), local_init_op=tf.no_op(),
        ready_op=tf.report_uninitialized_variables(tf.global_variables())))
    with tf.train.MonitoredSession(creator) as session:
        model.run(session)


@each_kind
@each_saving
def test_supervisor(resource, save_accumulators, tmpdir):
    model = Model(resource, save_accumulators)
    supervisor = tf.train.Supervisor(logdir=str(tmpdir), global_step=model.step, save_model_secs=0, summary_op=None)
    with supervisor.managed_session() as session:
        model.run(session)


@each_kind
def test_initializer_of_chosen_variables_is_enough(resource):
    model = Model(resource)
    variables = tf.trainable_variables() + model.optimizer.variables() + [model.step]
    with tf.Session() as session:
        session.run(tf.variables_initializer(variables))
        model.run(session)


@each_kind
def test_two_sessions_at_once_share_nothing(resource):
    model = Model(resource)
    init = tf.global_variables_initializer()
    with tf.Session() as first, tf.Session() as second:
        first.run(init)
        second.run(init)
        first.run(model.train, {model.x: 100.})
        model.run(second)
        assert first.run(model.optimizer.held) == 1
        first.run(model.train, {model.x: 50.})
        assert first.run(model.w) == -75.


@each_kind
def test_partial_run_of_a_train_op_and_others_in_one_call(resource):
    # Existing code fetches the loss, the step and a summary beside the train op.
    model = Model(resource)
    summary = tf.summary.scalar("w", model.w)
    with tf.train.MonitoredTrainingSession() as session:
        for gradient in GRADIENTS[:4]:
            _, text, held = session.run([model.train, summary, model.optimizer.held], {model.x: gradient})
            assert text and held in (0, 1)
        assert session.run(model.w) == -8.


@pytest.mark.slow
@pytest.mark.skipif(not has_estimator(), reason="TensorFlow after 2.15 has no Estimator")
@pytest.mark.parametrize("tail, expected", [("flush", (-17., 3)), ("drop", (-8., 2)), (None, (-8., 2))],
                         ids=["flush", "drop", "no_hook"])
def test_estimator(tmpdir, tail, expected):
    def input_fn():
        return tf.data.Dataset.from_tensor_slices(np.float32(GRADIENTS))

    def model_fn(features, labels, mode, params):
        w = tf.get_variable("w", [], initializer=tf.zeros_initializer())
        optimizer = tf1accum.AccumulatingOptimizer(tf.train.MomentumOptimizer(1., 0.), steps=2)
        train_op = optimizer.minimize(w * features, global_step=tf.train.get_global_step())
        hooks = [] if tail is None else [tf1accum.TailHook(optimizer, tail, checkpoint_dir=str(tmpdir))]
        return tf.estimator.EstimatorSpec(mode, loss=w * features, train_op=train_op, training_hooks=hooks)

    estimator = tf.estimator.Estimator(model_fn, str(tmpdir), config=tf.estimator.RunConfig(
        log_step_count_steps=None, save_summary_steps=None))
    estimator.train(input_fn)
    assert (estimator.get_variable_value("w"), estimator.get_variable_value("global_step")) == expected
    # Goes on from its checkpoint: the same five again.
    estimator.train(input_fn)
    assert estimator.get_variable_value("w") == 2 * expected[0]
    assert not [name for name in estimator.get_variable_names() if "accum" in name]
