package loader_test

import (
	"math"
	"reflect"
	"strings"
	"testing"
	"time"

	"loaderd/loader/assembly"
	"loaderd/loader/document"
	"loaderd/loader/fault"
	"loaderd/loader/mixture"
	"loaderd/loader/plan"
	"loaderd/loader/runconfig"
	"loaderd/loader/state"
	"loaderd/packonline"
)

// lossShareRun returns a run of chats, in which a fifth of the tokens has a loss, and of web, in equal shares of the
// given unit.
func lossShareRun(unit mixture.ShareUnit) (*fixture, shelf, runconfig.Config) {
	c := config("bfd")
	c.Sources = sources(map[string]float64{"chats": 1, "web": 1})
	c.Mix.Share = unit
	w, s := mixed(c, "chats", "web")
	for _, n := range someLengths(3, 1500) {
		docs := s["chats"]
		n += 5
		loss := int32(n / 5)
		docs.publish(document.Document{Content: document.Content{Tokens: docs.tokens(docs.state().Last+1, n),
			Loss: plan.NewLossRuns([]int32{0, int32(n) - loss, loss})}})
	}
	s["web"].lengths(someLengths(4, 1500)...)
	return w, s, w.config
}

// lossOf counts the tokens with a loss and all tokens of each source in batches.
func lossOf(batches []*assembly.Batch) (loss, all [2]float64) {
	for _, b := range batches {
		for i, row := range b.Pieces {
			at := int32(0)
			for _, p := range row {
				n := p.Length
				if len(b.Loss) > 0 {
					n = b.Loss[i].LossTokens(packonline.Piece{Start: at, Length: p.Length})
				}
				loss[plan.RefSource(p.Doc)] += float64(n)
				all[plan.RefSource(p.Doc)] += float64(p.Length)
				at += p.Length
			}
		}
	}
	return loss, all
}

func checkEqualShares(t *testing.T, what string, tokens [2]float64, within float64) {
	t.Helper()
	if share := tokens[0] / (tokens[0] + tokens[1]); math.Abs(share-.5) > within {
		t.Errorf("%s: chats have a share of %.4f, want 0.5: %.0f", what, share, tokens)
	}
}

// With mix.share: loss_tokens, the weights are shares of the tokens with a loss in the steps that ranks read. Restarts
// change no step, the audit plans them again, and the plan has the numbers by source.
func TestMix_SharesOfLossTokens(t *testing.T) {
	w, s, _ := lossShareRun(mixture.ShareLossTokens)
	run, stop := w.start(t)
	const steps = 60
	want := read(t, run, state.RankID{World: 1}, 0, steps)
	loss, all := lossOf(want)
	checkEqualShares(t, "tokens with a loss", loss, .01)
	if all[0] < 2*all[1] {
		t.Errorf("all tokens: %v", all)
	}
	for i, x := range run.Stats().Sources {
		if x.Unit != mixture.ShareLossTokens || float64(x.LossTokens) < loss[i] || x.LossTokens >= x.Status.Tokens {
			t.Errorf("%+v with %.0f tokens with a loss in steps", x, loss[i])
		}
	}
	recorded := [2]float64{}
	for i := range uint64(steps) {
		step, err := run.Step(t.Context(), i)
		must(t, err)
		for source, n := range step.SourceLossTokens {
			recorded[source] += float64(n)
		}
	}
	if recorded != loss {
		t.Errorf("the plan has %v tokens with a loss by source, the batches have %v", recorded, loss)
	}
	_, err := changeMix(t, run, mixture.Change{Weights: map[string]float64{"chats": 0.25, "web": 0.75}}, "alice")
	must(t, err)
	changed := read(t, run, state.RankID{World: 1}, steps, 90)
	late, _ := lossOf(changed[60:])
	if share := late[0] / (late[0] + late[1]); math.Abs(share-.25) > .02 {
		t.Errorf("after a change to 0.25, chats have %.4f of the tokens with a loss", share)
	}
	want = append(want, changed...)
	for _, checkpoints := range []map[string][]byte{w.checkpoints.data, {}} {
		must(t, stop())
		w.checkpoints.data = checkpoints
		run, stop = w.start(t)
		if again := read(t, run, state.RankID{World: 1}, 0, len(want)); !reflect.DeepEqual(again, want) {
			t.Fatal("a restart changes the steps")
		}
	}
	_, err = run.Seal(t.Context())
	must(t, err)
	whole := read(t, run, state.RankID{World: 1}, 0, 0)
	must(t, stop())
	w.audited(t, s, len(whole))
}

// A fork can change what the weights are shares of. Its steps have the shares of its unit.
func TestForkSources_ChangesShareUnit(t *testing.T) {
	for _, unit := range []mixture.ShareUnit{mixture.ShareTokens, mixture.ShareLossTokens} {
		w, s, c := lossShareRun(unit)
		run, stop := w.start(t)
		before := read(t, run, state.RankID{World: 1}, 0, 40)
		must(t, stop())
		loss, all := lossOf(before)
		checkEqualShares(t, "parent", map[bool][2]float64{true: loss, false: all}[unit.CountsLoss()], .02)
		c.Mix.Share = mixture.ShareLossTokens
		if unit.CountsLoss() {
			c.Mix.Share = mixture.ShareTokens
		}
		fork := w.forksAt(t, s, 20, c)
		run, stop = fork.start(t)
		after := read(t, run, state.RankID{World: 1}, 0, 150)
		must(t, stop())
		loss, all = lossOf(after[60:])
		checkEqualShares(t, "fork to "+c.Mix.Share.String(), map[bool][2]float64{false: loss, true: all}[unit.CountsLoss()],
			.02)
		fork.audited(t, s, len(fork.ends(t)))
	}
}

// A source whose documents have no token with a loss does not stop the others: they are skipped, and the source ends
// after one epoch.
func TestMix_MaskedDocumentsOfLossShares(t *testing.T) {
	c := config("bfd")
	c.Sources = sources(map[string]float64{"chats": 1, "web": 1})
	c.Sources["chats"] = mixture.Source{Weight: 9, Epochs: mixture.Forever}
	c.Mix.Share = mixture.ShareLossTokens
	w, s := mixed(c, "chats", "web")
	for range 300 {
		s["chats"].publish(document.Document{Skip: plan.SkipMasked})
	}
	s["web"].lengths(someLengths(4, 300)...)
	run, stop := w.start(t)
	_, err := run.Seal(t.Context())
	must(t, err)
	loss, _ := lossOf(read(t, run, state.RankID{World: 1}, 0, 0))
	if loss[0] != 0 || loss[1] == 0 {
		t.Errorf("%v tokens with a loss", loss)
	}
	stats := run.Stats().Sources
	if n := stats[0].Skipped.Count(plan.SkipMasked); n != 300 || !stats[0].Exhausted || stats[1].Arrived != 300 {
		t.Errorf("%+v", stats)
	}
	must(t, stop())
	w.audited(t, s, int(run.Info().Planned))
}

// A run that waits for a source whose documents have no token with a loss reports so.
func TestStall_NamesSourceWithoutLoss(t *testing.T) {
	bubble(t, "loss shares", func(t *testing.T) {
		c := config("bfd")
		c.Sources = sources(map[string]float64{"chats": 1, "web": 1})
		c.Mix.Share = mixture.ShareLossTokens
		w, s := mixed(c, "chats", "web")
		w.options.StallTimeout = 20 * time.Second
		for range 30 {
			s["chats"].publish(document.Document{Skip: plan.SkipMasked})
		}
		s["web"].lengths(someLengths(4, 300)...)
		run, stop := w.start(t)
		o := readAll(t, run, 0)
		if reason(o.err) != fault.SourceDry || !strings.Contains(o.err.Error(),
			`no token of the 30 documents of source "chats" has a loss, so its share of the tokens with a loss`) {
			t.Errorf("%v", o.err)
		}
		if v := run.Verdict(); !strings.HasPrefix(v.Sentence, `Waiting for documents of source "chats" with a loss, `) {
			t.Errorf("%+v", v)
		}
		must(t, stop())
	})
}

// The measured length of a run with shares of tokens with a loss is exact, also with documents that repeat.
func TestLength_ExactForLossShares(t *testing.T) {
	w, _, c := lossShareRun(mixture.ShareLossTokens)
	c.Mix.End, c.Packing.Method, c.Packing.Buckets = mixture.EndFirst, "bucket", []int{16, 32}
	c.Sources["web"] = mixture.Source{Weight: 3, Epochs: 2, Block: 4}
	w.config = c
	w.measured()
	run, stop := w.start(t)
	read(t, run, state.RankID{World: 1}, 0, 5)
	must(t, errOf(run.Seal(t.Context())))
	steps := exact(t, run)
	if got := len(read(t, run, state.RankID{World: 1}, 0, 0)); uint64(got) != steps {
		t.Errorf("%d steps follow, and %d were measured", got, steps)
	}
	must(t, stop())
}
