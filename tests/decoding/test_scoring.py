import numpy as np
import pytest

from keras_transformer import decoding
from tests.decoding import reference
from tests.decoding.test_beam import BEAM, SAMPLES, SHORT
from tests.decoding.tiny import find, random_model, sources, text


@pytest.mark.parametrize("alpha", [0.0, 0.6])
def test_a_score_is_the_log_probability_over_the_penalty(alpha):
    model = random_model(5)
    ids = sources(np.random.default_rng(5))
    targets = np.array([[4, 6, 5, 3], [6, 3, 0, 0], [1, 4, 0, 0]])
    scores = decoding.score(model, ids, targets, length_penalty=alpha)
    for source, target, score in zip(ids, targets, scores):
        expected = reference.log_prob(model, source, text(target))
        expected /= reference.penalty(len(text(target)), alpha)
        np.testing.assert_allclose(score, expected, atol=1e-4)


@pytest.mark.parametrize(
    ("search", "settings"),
    [
        (decoding.greedy_search, SHORT),
        (decoding.beam_search, BEAM),
        (decoding.sample, SAMPLES),
    ],
)
def test_what_a_search_finds_scores_the_same(search, settings):
    for seed in range(8):
        model = random_model(seed)
        ids = sources(np.random.default_rng(seed))
        found = find(search, model, ids, **settings)
        count = found.ids.shape[1]
        scores = find(
            decoding.score,
            model,
            np.repeat(ids, count, axis=0),
            np.reshape(found.ids, (-1, found.ids.shape[-1])),
            length_penalty=0.6,
        )
        np.testing.assert_allclose(
            np.reshape(scores, (-1, count)), found.scores, atol=1e-4
        )


def test_padding_changes_no_score():
    model = random_model(6)
    ids = sources(np.random.default_rng(6))
    targets = np.array([[4, 6, 3], [6, 3, 0], [3, 0, 0]])
    padded = find(
        decoding.score,
        model,
        np.pad(ids, ((0, 0), (0, 3))),
        np.pad(targets, ((0, 0), (0, 2))),
        length_penalty=0.6,
    )
    for row in range(3):
        target = np.array([text(targets[row])])
        alone = find(
            decoding.score,
            model,
            ids[row : row + 1],
            target,
            length_penalty=0.6,
        )
        np.testing.assert_allclose(padded[row], alone[0], atol=1e-5)


def test_wrong_arguments_are_named():
    model = random_model(0)
    with pytest.raises(ValueError, match="`target_ids`.*shape=\\(2,\\)"):
        decoding.score(model, np.array([[4, 3]]), np.array([4, 3]))
    with pytest.raises(ValueError, match="`length_penalty`.*None"):
        decoding.score(model, [[4, 3]], [[4, 3]], length_penalty=None)
