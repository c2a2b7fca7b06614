"""What each transform of speech does to a clip, said in numbers."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
from audio_samples import grain, recordings, voice

from aitest_lib.data.recordings import NoiseSource, Recordings
from aitest_lib.errors import InputError
from aitest_lib.pcm import LEAST, of_pcm16, to_pcm16
from aitest_lib.rng import rng_for
from aitest_lib.transforms.audio.channel import Clipping, Gain, PacketLoss, TelephoneBand, in_band
from aitest_lib.transforms.audio.effect import resampled
from aitest_lib.transforms.audio.interference import Interference, crossfade, window, window_start
from aitest_lib.transforms.audio.levels import active_rms, in_db, peak, rms, speech_share
from aitest_lib.transforms.audio.mixing import fitted, mixed, sent
from aitest_lib.transforms.audio.noises import synthesize
from aitest_lib.transforms.audio.reverberation import Reverberation, late_echoes
from aitest_lib.transforms.audio.tempo import Pitch, Speed, stretched
from aitest_lib.transforms.audio.white_noise import WhiteNoise, white
from aitest_lib.transforms.base import unit_of
from aitest_lib.types import Clip

RATE = 16_000


def drawn(transform, clip, noise=None, seed="a"):
    return transform.draw([seed], [clip], partial(rng_for, 7, transform.key), noise).params[0]


def applied(transform, clip, noise=None):
    return transform.apply(clip, drawn(transform, clip, noise), noise)


def tone(hertz, seconds=1.0, rate=RATE, level=0.5):
    return of_pcm16(to_pcm16(level * np.sin(2 * np.pi * hertz * np.arange(round(seconds * rate)) / rate)), rate)


def loudest_hertz(clip):
    spectrum = np.abs(np.fft.rfft(clip.samples * np.hanning(len(clip.samples))))
    return spectrum.argmax() * clip.sample_rate / len(clip.samples)


# Levels


def test_a_level_leaves_the_mean_out():
    samples = tone(100, level=0.2).samples
    assert rms(samples) == pytest.approx(0.2 / np.sqrt(2), rel=1e-4)
    assert rms(samples + np.float32(0.5)) == pytest.approx(rms(samples), rel=1e-6)
    assert rms(np.array([0.3], np.float32)) == 0
    assert rms(samples, less=samples) == 0


def test_a_level_of_minutes_is_that_of_seconds():
    samples = grain(RATE, level=0.1).samples
    assert rms(np.tile(samples, 120)) == rms(samples)


def test_silence_around_speech_does_not_change_its_active_level():
    clip, padded = voice(2.0), voice(2.0, pause=3.0)
    assert active_rms(padded.samples, RATE) == pytest.approx(active_rms(clip.samples, RATE), rel=0.01)
    assert rms(padded.samples) < 0.6 * rms(clip.samples)
    assert speech_share(padded.samples, RATE) == pytest.approx(speech_share(clip.samples, RATE) / 4, rel=0.05)
    assert speech_share(tone(300).samples, RATE) == 1


def test_a_clip_of_half_a_frame_has_a_level():
    assert active_rms(tone(1_000, seconds=0.01).samples, RATE) == pytest.approx(0.5 / np.sqrt(2), rel=0.01)


# Clip and noise become 16-bit samples


def test_what_would_not_fit_is_scaled_down_as_a_whole_and_said():
    clip, noise = tone(200, level=0.9), white(1, RATE)
    changed = mixed(clip, noise, rms(clip.samples), rms(clip.samples))
    assert peak(changed.clip.samples) == pytest.approx(0.99, abs=LEAST)
    assert changed.measured["gain_db"] < -3
    assert changed.measured["snr_db"] == pytest.approx(0, abs=0.01)
    assert changed.measured["clipped"] == 0
    assert changed.measured["peak_dbfs"] == pytest.approx(in_db(0.99), abs=0.001)


def test_noise_below_the_steps_of_16_bits_is_amplified_with_its_clip_and_said():
    clip = tone(200, level=0.0005)
    changed = applied(WhiteNoise(snr_db=30), clip)
    assert changed.measured["gain_db"] > 10
    assert changed.measured["snr_db"] == pytest.approx(30, abs=0.1)
    usual = applied(WhiteNoise(snr_db=30), tone(200, level=0.5))
    assert "gain_db" not in usual.measured


def test_weak_noise_beside_a_loud_clip_has_its_level_all_the_same():
    clip = tone(200, level=0.98)  # leaves no room to amplify
    changed = applied(WhiteNoise(snr_db=86 - 3.01 - 3), clip)  # noise of 1.6 steps
    assert changed.measured["snr_db"] == pytest.approx(80, abs=0.1)


def test_flat_noise_adds_nothing():
    clip = voice()
    for noise in (np.zeros(RATE, np.float32), np.full(RATE, 0.3, np.float32)):
        changed = mixed(clip, noise, 0.1, 0.1)
        assert (changed.clip.samples == clip.samples).all()
        assert "snr_db" not in changed.measured


def test_a_clip_that_is_full_already_says_how_much_of_it_is():
    samples = np.array([1 - LEAST, -1, 0.5, 0], np.float32)
    assert sent(samples, RATE).measured == {"peak_dbfs": 0.0, "clipped": 0.5}
    assert fitted(samples, RATE).measured["clipped"] == 0.5
    assert fitted(2 * samples, RATE).measured["gain_db"] == pytest.approx(in_db(0.495), abs=0.001)
    assert sent(np.zeros(3, np.float32), RATE).measured == {"clipped": 0.0}


# White noise


def test_white_noise_is_white_normal_and_does_not_come_back():
    noise = white(5, 1 << 18)
    assert noise.mean() == pytest.approx(0, abs=0.01)
    assert noise.std() == pytest.approx(1, abs=0.01)
    power = np.square(np.abs(np.fft.rfft(noise.reshape(-1, 1024)))).mean(axis=0)[1:-1]
    assert power.max() / power.min() < 3
    spectrum = np.abs(np.fft.rfft(noise)) ** 2
    correlation = np.fft.irfft(spectrum)[1 : 1 << 17] / spectrum.mean()
    assert np.abs(correlation).max() < 0.02
    assert (white(5, 1_000) == noise[:1_000]).all()
    assert not (white(6, 1_000) == noise[:1_000]).any(where=noise[:1_000] != 0)


def test_with_silence_around_it_the_active_level_gives_the_same_noise():
    noises = {}
    for by in ("clip", "active"):
        for pause in (0.0, 2.0):
            clip = voice(2.0, pause=pause)
            changed = applied(WhiteNoise(snr_db=10, level=by), clip)
            noises[by, pause] = rms(changed.clip.samples, less=clip.samples)
    assert noises["active", 2.0] == pytest.approx(noises["active", 0.0], rel=0.02)
    assert noises["clip", 2.0] < 0.7 * noises["clip", 0.0]


def test_slices_name_what_was_asked_for():
    assert WhiteNoise(snr_db=5).slice == {"transform": "white_noise", "snr_db": 5}
    assert WhiteNoise(snr_db=5, level="active").slice["level"] == "active"
    assert Interference(noise="rain").slice == {"transform": "interference", "noise": "rain", "snr_db": 10}
    assert Interference(noise="rain", theta=0.7).slice == {"transform": "interference", "noise": "rain", "theta": 0.7}
    assert Interference(recordings="noises", noise="x").slice["recordings"] == "noises"


# Interference


def test_interference_is_by_ratio_or_by_share():
    by_ratio, by_share = Interference(noise="wind", snr_db=3), Interference(noise="wind", theta=0.25)
    assert (by_ratio.strength, by_ratio.strength_value, unit_of(by_ratio)) == ("snr_db", 3, "dB")
    assert (by_share.strength, by_share.strength_value, unit_of(by_share)) == ("theta", 0.25, "1")
    assert Interference(**by_share.parameters()) == by_share
    with pytest.raises(InputError, match="got snr_db and theta, expected one of them"):
        Interference(noise="wind", theta=0.5, snr_db=0.5)


def test_an_unknown_noise_gets_its_nearest_ones():
    with pytest.raises(InputError, match=r"unknown noise 'restaurnt'; did you mean restaurant\?.*recordings"):
        Interference(noise="restaurnt")
    assert Interference(noise="jackhammer", recordings="noises").noise_source == NoiseSource(name="jackhammer", folder="noises")
    assert Interference(recordings="noises").noise_source == NoiseSource(name=None, folder="noises")
    assert Interference().noise_source == NoiseSource(name="restaurant")


@pytest.mark.parametrize("theta", [0.9, 0.7, 0.5, 0.3])
def test_theta_is_the_share_of_the_clip_beside_noise_of_its_level(theta):
    clip, noise = voice(2.0), synthesize("rain", RATE)
    changed = applied(Interference(noise="rain", theta=theta), clip, noise)
    assert changed.measured["snr_db"] == pytest.approx(20 * np.log10(theta / (1 - theta)), abs=0.05)
    fitted_gain = np.dot(changed.clip.samples, clip.samples) / np.dot(clip.samples, clip.samples)
    assert fitted_gain == pytest.approx(theta * 10 ** (changed.measured.get("gain_db", 0) / 20), abs=0.05)


def test_all_of_the_clip_changes_nothing_and_none_of_it_is_pure_noise():
    clip, noise = voice(2.0), synthesize("rain", RATE)
    assert (applied(Interference(noise="rain", theta=1), clip, noise).clip.samples == clip.samples).all()
    nothing = applied(Interference(noise="rain", theta=0), clip, noise)
    assert "snr_db" not in nothing.measured
    assert abs(np.corrcoef(nothing.clip.samples, clip.samples)[0, 1]) < 0.05
    assert rms(nothing.clip.samples) == pytest.approx(rms(clip.samples), rel=0.01)


def test_silent_stretches_of_a_recording_are_never_taken():
    quiet = np.zeros(20 * RATE, np.float32)
    quiet[5 * RATE : 6 * RATE] = grain(RATE).samples
    level = rms(quiet)
    for seed in range(40):
        start = window_start(quiet, level, RATE // 2, RATE, np.random.default_rng(seed))
        assert rms(window(quiet, start, RATE // 2, RATE)) >= 0.1 * level


def test_one_click_in_a_long_silence_is_found():
    quiet = np.zeros(3_000 * RATE, np.float32)
    quiet[-10] = 0.5
    start = window_start(quiet, rms(quiet), 100, RATE, np.random.default_rng(1))
    assert window(quiet, start, 100, RATE).max() == 0.5


def test_a_short_recording_goes_round_without_a_seam():
    short = tone(440, seconds=0.333).samples
    faded = crossfade(short, RATE)
    looped = window(short, 0, 5 * len(short), RATE)
    assert faded == 0.05 * RATE
    assert len(looped) == 5 * len(short)
    period = len(short) - faded
    assert (looped[:period] == looped[period : 2 * period]).all()
    steps = np.abs(np.diff(looped))
    assert steps.max() <= 1.5 * np.abs(np.diff(short)).max()
    assert (window(short, 100, 5 * len(short), RATE)[:500] == looped[100:600]).all()


def test_a_crossfade_keeps_the_power_of_noise():
    short = grain(RATE // 2).samples
    looped = window(short, 0, RATE, RATE)
    seam = looped[: crossfade(short, RATE)]
    assert np.square(seam).mean() == pytest.approx(np.square(short).mean(), rel=0.15)


@pytest.mark.parametrize("length", [2, 3, 7, 100])
def test_recordings_of_a_few_samples_fill_a_clip(length):
    noise = recordings(length / RATE)
    changed = applied(Interference(recordings="noises", snr_db=0), voice(0.5), noise)
    assert changed.measured["snr_db"] == pytest.approx(0, abs=0.1)


def test_each_seed_has_its_recording_and_its_place():
    noise, clip = recordings(3.0, 4.0, 5.0), voice(1.0)
    transform = Interference(recordings="noises", snr_db=10)
    params = [drawn(transform, clip, noise, seed=f"seed {number}") for number in range(30)]
    assert {one["recording"] for one in params} == set(noise.names)
    assert len({one["start"] for one in params}) > 25


def test_noise_at_another_rate_is_refused():
    transform = Interference(recordings="noises")
    with pytest.raises(ValueError, match="8000 Hz for a clip at 16000"):
        applied(transform, voice(), recordings(3.0, rate=8_000))
    with pytest.raises(ValueError, match="no recordings"):
        applied(transform, voice())


def test_a_recording_far_from_zero_adds_no_offset():
    noise = Recordings(("hum",), (grain(3 * RATE).samples + np.float32(0.4),), RATE)
    changed = applied(Interference(recordings="noises", snr_db=0), voice(), noise)
    assert abs(changed.clip.samples.mean() - voice().samples.mean()) < 2 * LEAST


# Tempo


@pytest.mark.parametrize("factor", [0.5, 0.9, 1.013, 1.25, 2.0])
@pytest.mark.parametrize("rate", [8_000, 11_025, 48_000])
def test_speed_moves_length_and_pitch_together(factor, rate):
    changed = applied(Speed(factor=factor), tone(440, seconds=2.0, rate=rate))
    assert len(changed.clip.samples) == round(2 * rate / factor)
    assert loudest_hertz(changed.clip) == pytest.approx(440 * factor, abs=1)
    assert rms(changed.clip.samples) == pytest.approx(0.5 / np.sqrt(2), rel=0.02)


def test_what_a_faster_clip_cannot_hold_is_not_folded_back():
    changed = applied(Speed(factor=2), tone(6_000))
    assert rms(changed.clip.samples) < 0.01


def test_resampling_keeps_the_ends_where_they_were():
    ramp = np.sin(np.linspace(0, np.pi, 4_000)).astype(np.float32)
    back = resampled(resampled(ramp, RATE, 7_001), RATE, 4_000)
    assert np.abs(back - ramp).max() < 0.01


@pytest.mark.parametrize("semitones", [-12.0, -5.0, 0.5, 4.0, 12.0])
def test_pitch_moves_and_the_length_and_level_stay(semitones):
    clip = tone(440, seconds=2.0)
    changed = applied(Pitch(semitones=semitones), clip)
    assert len(changed.clip.samples) == len(clip.samples)
    assert loudest_hertz(changed.clip) == pytest.approx(440 * 2 ** (semitones / 12), rel=0.004)
    assert rms(changed.clip.samples) == pytest.approx(rms(clip.samples), rel=0.03)


def test_words_stay_where_they_were_when_the_pitch_moves():
    clip = voice(4.0)
    for semitones in (-7.0, 7.0):
        changed = applied(Pitch(semitones=semitones), clip)
        envelopes = [np.square(one.samples).reshape(-1, 400).mean(axis=1) for one in (clip, changed.clip)]
        assert np.corrcoef(*envelopes)[0, 1] > 0.8


@pytest.mark.parametrize("count", [1, 2, 50, 481])
def test_the_shortest_clips_can_be_stretched(count):
    for times in (0.5, 1.3, 2.0):
        assert len(stretched(grain(count).samples, RATE, times)) == max(1, round(count * times))


# Rooms


def test_a_room_decays_by_60_db_in_its_time():
    echoes = late_echoes(3, 0.8, RATE)
    energy = np.square(echoes.astype(np.float64))
    left = 10 * np.log10(np.cumsum(energy[::-1])[::-1] / energy.sum())  # Schroeder's backward integral
    early, late = np.searchsorted(-left, [5, 35])
    assert (late - early) / RATE * 2 == pytest.approx(0.8, rel=0.1)
    assert energy.sum() == pytest.approx(0.8 / 0.5, rel=1e-4)


def test_a_longer_time_is_the_same_room_with_less_on_its_walls():
    short, long_ = late_echoes(3, 0.3, RATE), late_echoes(3, 1.2, RATE)[: round(0.3 * RATE)]
    assert (np.sign(short) == np.sign(long_)).all()
    clip = voice(2.0)
    shares = [applied(Reverberation(rt60_s=time), clip).measured["drr_db"] for time in (0.25, 0.5, 1.0)]
    assert shares == pytest.approx([3.01, 0, -3.01], abs=0.01)


def test_reverberation_fills_the_pauses_and_keeps_length_and_level():
    clip = voice(2.0, pause=0.5)
    changed = applied(Reverberation(rt60_s=1.0), clip)
    assert len(changed.clip.samples) == len(clip.samples)
    assert rms(changed.clip.samples) == pytest.approx(rms(clip.samples), rel=0.01)
    assert rms(changed.clip.samples[-RATE // 2 :]) > 100 * LEAST
    assert (changed.clip.samples[: RATE // 2] == 0).all()  # nothing is heard before it is said
    assert (applied(Reverberation(rt60_s=0.00001), clip).clip.samples == clip.samples).all()


# Channels


@pytest.mark.parametrize("rate", [8_000, 11_025, 16_000, 44_100])
def test_a_telephone_lets_its_band_through_and_nothing_else(rate):
    inside, low, high = (applied(TelephoneBand(), tone(hertz, rate=rate)) for hertz in (1_000, 100, 3_900))
    assert rms(inside.clip.samples) == pytest.approx(0.5 / np.sqrt(2), rel=0.02)
    assert rms(low.clip.samples) < 0.002
    assert rms(high.clip.samples) < 0.002
    assert 0.001 < rms(inside.clip.samples, less=tone(1_000, rate=rate).samples) < 0.02  # what mu-law adds
    assert rms(in_band(tone(1_000, rate=rate).samples, rate), less=tone(1_000, rate=rate).samples) < 0.001


def test_clipping_cuts_at_a_level_under_the_peak():
    changed = applied(Clipping(level_db=-6), tone(100, level=0.8))
    assert peak(changed.clip.samples) == pytest.approx(0.8 * 10 ** (-6 / 20), abs=LEAST)
    assert changed.measured["cut"] == pytest.approx(2 / np.pi * np.arccos(10 ** (-6 / 20)), abs=0.01)
    assert changed.measured["clipped"] == 0


def test_gain_cuts_on_purpose_and_says_so():
    louder = applied(Gain(gain_db=20), tone(100, level=0.5))
    assert louder.measured["clipped"] > 0.8
    assert louder.measured["peak_dbfs"] == pytest.approx(0, abs=0.001)
    quieter = applied(Gain(gain_db=-20), tone(100, level=0.5))
    assert quieter.measured["peak_dbfs"] == pytest.approx(in_db(0.05), abs=0.01)
    assert quieter.measured["gain_db"] == -20


def test_lost_packets_are_whole_nested_and_in_bursts():
    clip = of_pcm16(np.full(10 * RATE, 1_000, np.int16) + np.arange(10 * RATE, dtype=np.int16) % 7, RATE)
    lost = {}
    for rate in (0.02, 0.1, 0.3, 0.8):
        changed = applied(PacketLoss(rate=rate), clip)
        packets = changed.clip.samples.reshape(-1, 320)
        lost[rate] = (packets == 0).all(axis=1)
        assert ((packets != 0).all(axis=1) | lost[rate]).all()
        assert lost[rate].mean() == changed.measured["lost"] == pytest.approx(rate)
    assert all((lost[more] | ~lost[less]).all() for less, more in ((0.02, 0.1), (0.1, 0.3), (0.3, 0.8)))
    after_a_loss = lost[0.3][1:][lost[0.3][:-1]].mean()
    assert after_a_loss > 0.5  # by chance alone 0.3
    assert (applied(PacketLoss(rate=1), clip).clip.samples == 0).all()


def test_a_clip_of_one_changing_sample_survives_everything():
    clip = Clip(np.array([0, 0.5], np.float32), RATE)
    for transform in (
        WhiteNoise(),
        Speed(factor=2),
        Pitch(),
        Reverberation(),
        TelephoneBand(),
        Clipping(),
        Gain(),
        PacketLoss(),
    ):
        assert np.isfinite(applied(transform, clip).clip.samples).all()
