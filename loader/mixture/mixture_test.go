package mixture_test

import (
	"bytes"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"loaderd/loader/mixture"
)

func config(sources map[string]mixture.Source) mixture.Config {
	return mixture.Config{Sources: sources, Mix: mixture.Mix{OnDry: mixture.DryWait, End: mixture.EndAll}, Seed: 7}
}

// plain returns a source that is read once, in stream order.
func plain(weight float64) mixture.Source { return mixture.Source{Weight: weight, Epochs: 1} }

func live(names map[string]mixture.Source) map[string]mixture.SourceRange {
	out := map[string]mixture.SourceRange{}
	for name := range names {
		out[name] = mixture.SourceRange{First: 1}
	}
	return out
}

func open(t interface {
	Helper()
	Fatal(...any)
}, c mixture.Config, begins map[string]mixture.SourceRange) *mixture.Mixture {
	t.Helper()
	if bad := c.Validate(); len(bad) > 0 {
		t.Fatal(bad)
	}
	m, err := mixture.New(c, begins)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func must(t interface {
	Helper()
	Fatal(...any)
}, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// world is an independent account of a mixture: what each source should have had, by the shares at each document.
type world struct {
	m       *mixture.Mixture
	owed    []float64 // tokens of each source by the shares so far
	longest int
	taken   []string // name/sequence
}

func (w *world) take(t *rapid.T, tokens, lossTokens int) {
	s, sequence, ok := w.m.Next()
	if !ok {
		t.Fatal("no source comes next")
	}
	status := w.m.Status()
	for len(w.owed) < len(status) {
		w.owed = append(w.owed, 0)
	}
	counted := int(status[0].Unit.Select(int64(tokens), int64(lossTokens)))
	for i, x := range status {
		w.owed[i] += x.Share * float64(counted)
	}
	w.taken = append(w.taken, fmt.Sprint(status[s].Name, "/", sequence))
	w.longest = max(w.longest, counted)
	w.m.RecordNext(tokens, lossTokens)
	w.m.ApplySourceEnds()
	for i, x := range w.m.Status() {
		if off := math.Abs(w.owed[i] - float64(x.SharedTokens())); i < len(w.owed) && off > float64(w.longest*len(status))+1 {
			t.Fatalf("%s has %d %s and should have %.0f", x.Name, x.SharedTokens(), x.Unit, w.owed[i])
		}
	}
}

func drawConfig(t *rapid.T) mixture.Config {
	c := config(map[string]mixture.Source{})
	names := rapid.SliceOfNDistinct(rapid.StringMatching("[a-z]{1,3}"), 1, 5, rapid.ID).Draw(t, "names")
	weight := rapid.SampledFrom([]float64{0, 0.1, 1, 2.5, 1e-7, 1e6})
	for _, name := range names {
		s := plain(weight.Draw(t, "weight"))
		s.Epochs = rapid.SampledFrom([]mixture.Epochs{1, 1, 2, 3, mixture.Forever}).Draw(t, "epochs")
		s.Block = rapid.SampledFrom([]int{0, 1, 3, 64}).Draw(t, "block")
		c.Sources[name] = s
	}
	first := c.Sources[names[0]]
	first.Weight = 1
	c.Sources[names[0]] = first
	c.Mix.Share = rapid.SampledFrom([]mixture.ShareUnit{"", mixture.ShareTokens, mixture.ShareLossTokens}).Draw(t, "share")
	c.Mix.End = rapid.SampledFrom([]string{mixture.EndAll, mixture.EndAll, mixture.EndFirst}).Draw(t, "end")
	at := 0
	for range rapid.IntRange(0, 2).Draw(t, "points") {
		at += rapid.IntRange(0, 2000).Draw(t, "tokens")
		p := mixture.Point{Tokens: mixture.Tokens(at), Ramp: mixture.Tokens(rapid.IntRange(0, 1000).Draw(t, "ramp")),
			Weights: map[string]float64{}}
		after := rapid.SampledFrom(names).Draw(t, "source")
		if c.Mix.End == mixture.EndAll && c.Sources[after].Epochs != mixture.Forever && rapid.Bool().Draw(t, "after it") {
			p.Tokens, p.After = 0, after
		}
		at = max(at, int(p.Tokens+p.Ramp))
		for _, name := range names {
			p.Weights[name] = weight.Draw(t, "weight")
		}
		p.Weights[names[len(names)-1]] = 3
		c.Mix.Schedule = append(c.Mix.Schedule, p)
	}
	return c
}

// After any changes, each source deviates from its share by less than the longest document times the number of
// sources, at every document. A mixture that is restored after every step continues like one that is not. Sealed
// sources are taken completely, once per epoch.
func TestMixture_KeepsSharesWhenRestored(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := drawConfig(t)
		begins := map[string]mixture.SourceRange{}
		for name := range c.Sources {
			begin := mixture.SourceRange{First: 1 + uint64(rapid.IntRange(0, 5).Draw(t, "first"))}
			if begin.Sealed = rapid.Bool().Draw(t, "sealed at the start"); begin.Sealed {
				begin.Last = begin.First - 1 + uint64(rapid.IntRange(0, 40).Draw(t, "documents"))
			}
			begins[name] = begin
		}
		w := &world{m: open(t, c, begins)}
		restored := open(t, c, begins)
		both := func(f func(m *mixture.Mixture) error) {
			must(t, f(w.m))
			must(t, f(restored))
		}
		for range rapid.IntRange(0, 400).Draw(t, "steps") {
			a, sa, oka := w.m.Next()
			b, sb, okb := restored.Next()
			if a != b || sa != sb || oka != okb {
				t.Fatalf("it goes on with document %d of source %d (%v), restored with %d of %d (%v)", sa, a, oka, sb, b, okb)
			}
			some := rapid.IntRange(0, 40).Draw(t, "what")
			i := rapid.IntRange(0, w.m.Len()-1).Draw(t, "source")
			x := w.m.Status()[i]
			switch {
			case some == 0 && !x.Sealed && !x.Removed:
				last := begins[x.Name].First + x.Taken - 1 + uint64(rapid.IntRange(0, 10).Draw(t, "more"))
				both(func(m *mixture.Mixture) error { return m.Seal(i, last) })
			case some == 1 && !x.Removed:
				both(func(m *mixture.Mixture) error { return m.Rest(i, !x.Paused) })
			case some == 2 && w.m.Len() < 8:
				change := mixture.Change{Weights: map[string]float64{},
					Add: map[string]mixture.Source{fmt.Sprint("new", w.m.Len()): plain(1)}}
				begins[fmt.Sprint("new", w.m.Len())] = mixture.SourceRange{First: 1}
				for _, x := range w.m.Status() {
					if !x.Removed {
						change.Weights[x.Name] = rapid.SampledFrom([]float64{0, 1, 5}).Draw(t, "weight")
					}
				}
				if !x.Removed && rapid.Bool().Draw(t, "removes") {
					change.Remove = []string{x.Name}
					delete(change.Weights, x.Name)
				}
				change.Weights[fmt.Sprint("new", w.m.Len())] = 2
				both(func(m *mixture.Mixture) error { return m.ApplyChange(change, begins) })
			case oka:
				n := rapid.SampledFrom([]int{0, 1, 5, 30, 300}).Draw(t, "length")
				loss := rapid.IntRange(min(n, 1), n).Draw(t, "tokens with a loss")
				w.take(t, n, loss)
				restored.RecordNext(n, loss)
				restored.ApplySourceEnds()
			}
			state := restored.AppendState(nil)
			restored = open(t, c, begins)
			rest, err := restored.RestoreState(append(state, "behind"...))
			must(t, err)
			if string(rest) != "behind" || !bytes.Equal(restored.AppendState(nil), state) || restored.Ended() != w.m.Ended() {
				t.Fatal("a restored mixture is another one")
			}
			if a, b := w.m.Status(), restored.Status(); !slices.Equal(a, b) {
				t.Fatalf("%+v becomes %+v", a, b)
			}
		}
		for _, x := range w.m.Status() {
			if x.Sealed && x.Epoch > 0 {
				whole(t, x.Name, begins[x.Name].First, x.Last, w.taken)
			}
		}
	})
}

// whole checks that each epoch except the last has every document once.
func whole(t *rapid.T, name string, first, last uint64, taken []string) {
	n := int(last + 1 - first)
	var mine []string
	for _, x := range taken {
		if strings.HasPrefix(x, name+"/") {
			mine = append(mine, x)
		}
	}
	var want []string
	for s := first; s <= last; s++ {
		want = append(want, fmt.Sprint(name, "/", s))
	}
	slices.Sort(want)
	for epoch := range slices.Chunk(mine, n) {
		if have := slices.Sorted(slices.Values(epoch)); len(have) == n && !slices.Equal(have, want) {
			t.Fatalf("an epoch of %s takes %v", name, epoch)
		}
	}
}

// sharesAfter takes the given number of tokens, in documents whose lengths depend on the source, and returns the
// share of each source.
func sharesAfter(m *mixture.Mixture, tokens int64, lengths map[string]int) map[string]float64 {
	before := m.Status()
	for end := m.Tokens() + tokens; m.Tokens() < end; {
		i, _, ok := m.Next()
		if !ok {
			break
		}
		m.RecordNext(lengths[m.Name(i)], lengths[m.Name(i)])
		m.ApplySourceEnds()
	}
	out := map[string]float64{}
	for i, x := range m.Status() {
		t := x.Tokens
		if i < len(before) {
			t -= before[i].Tokens
		}
		out[x.Name] = float64(t) / float64(tokens)
	}
	return out
}

func near(t *testing.T, have, want map[string]float64, by float64) {
	t.Helper()
	for name := range want {
		if math.Abs(have[name]-want[name]) > by {
			t.Errorf("share of %s is %.4f, want %.4f", name, have[name], want[name])
		}
	}
}

// Shares apply to tokens, for all lengths of documents.
func TestMixture_SharesApplyToTokens(t *testing.T) {
	c := config(map[string]mixture.Source{"a": plain(.2), "b": plain(.2), "c": plain(.2), "d": plain(.2), "e": plain(.2)})
	m := open(t, c, live(c.Sources))
	have := sharesAfter(m, 10e6, map[string]int{"a": 80, "b": 500, "c": 2000, "d": 7000, "e": 20000})
	near(t, have, map[string]float64{"a": .2, "b": .2, "c": .2, "d": .2, "e": .2}, .004)
}

// A schedule changes the weights linearly and keeps the final weights.
func TestSchedule_ChangesWeightsLinearly(t *testing.T) {
	c := config(map[string]mixture.Source{"web": plain(8), "math": plain(2)})
	c.Mix.Schedule = []mixture.Point{{Tokens: 1e6, Ramp: 1e6, Weights: map[string]float64{"web": 0, "math": 1}},
		{Tokens: 3e6, Weights: map[string]float64{"web": 1, "math": 1}}}
	m := open(t, c, live(c.Sources))
	for _, want := range []float64{.8, .4, 0, .5} { // during the ramp, the mean of .8 and 0
		near(t, sharesAfter(m, 1e6, map[string]int{"web": 100, "math": 30}),
			map[string]float64{"web": want, "math": 1 - want}, .003)
	}
}

// During a ramp the target moves in at least 256 equal parts.
func TestSchedule_RampMovesInEqualParts(t *testing.T) {
	c := config(map[string]mixture.Source{"a": plain(1), "b": plain(0)})
	c.Mix.Schedule = []mixture.Point{{Tokens: 0, Ramp: 256000, Weights: map[string]float64{"a": 0, "b": 1}}}
	m := open(t, c, live(c.Sources))
	seen := map[float64]bool{}
	for m.Tokens() < 256000 {
		seen[m.Status()[0].Target] = true
		m.RecordNext(100, 100)
		m.ApplySourceEnds()
	}
	if m.Status()[0].Target != 0 || len(seen) != 256 {
		t.Errorf("the target of a goes through %d values to %v", len(seen), m.Status()[0].Target)
	}
}

// When all sources with a weight are used up, a later point of the schedule that gives a source a weight takes
// effect.
func TestSchedule_PointAfterUsedUpSourcesTakesEffect(t *testing.T) {
	for _, ramp := range []mixture.Tokens{0, 1, 1000} {
		c := config(map[string]mixture.Source{"a": plain(1), "b": plain(0)})
		c.Mix.Schedule = []mixture.Point{{Tokens: 1e9, Ramp: ramp, Weights: map[string]float64{"a": 0, "b": 1}}}
		m := open(t, c, map[string]mixture.SourceRange{"a": {First: 1, Last: 3, Sealed: true},
			"b": {First: 1, Last: 2, Sealed: true}})
		var order []string
		for !m.Ended() {
			i, s, ok := m.Next()
			if !ok {
				t.Fatalf("nothing comes behind %v", order)
			}
			order = append(order, fmt.Sprint(m.Name(i), s))
			m.RecordNext(10, 10)
			m.ApplySourceEnds()
		}
		if want := []string{"a1", "a2", "a3", "b1", "b2"}; !slices.Equal(order, want) {
			t.Errorf("ramp %d: %v comes", ramp, order)
		}
	}
}

// A paused or used-up source leaves its weight to the other sources, in proportion. When it is resumed it has its
// share again, without compensation for the pause.
func TestMixture_PausedSourceLeavesWeightToOthers(t *testing.T) {
	c := config(map[string]mixture.Source{"a": plain(5), "b": plain(3), "c": plain(2)})
	m := open(t, c, live(c.Sources))
	lengths := map[string]int{"a": 10, "b": 10, "c": 10}
	near(t, sharesAfter(m, 1e5, lengths), map[string]float64{"a": .5, "b": .3, "c": .2}, .002)
	must(t, m.Rest(0, true))
	near(t, sharesAfter(m, 1e5, lengths), map[string]float64{"a": 0, "b": .6, "c": .4}, .002)
	must(t, m.Rest(0, false))
	near(t, sharesAfter(m, 1e5, lengths), map[string]float64{"a": .5, "b": .3, "c": .2}, .002)
	must(t, m.Seal(1, m.Status()[1].Taken))
	near(t, sharesAfter(m, 1e5, lengths), map[string]float64{"a": 5. / 7, "b": 0, "c": 2. / 7}, .002)
}

func TestMixture_EndFirstEndsWithFirstSource(t *testing.T) {
	c := config(map[string]mixture.Source{"a": plain(1), "b": plain(1)})
	c.Mix.End = mixture.EndFirst
	m := open(t, c, map[string]mixture.SourceRange{"a": {First: 1}, "b": {First: 1, Last: 3, Sealed: true}})
	for !m.Ended() {
		m.RecordNext(10, 10)
		m.ApplySourceEnds()
	}
	if m.Tokens() != 70 { // the end of b takes effect where its fourth document would be taken
		t.Errorf("it ends behind %d tokens", m.Tokens())
	}
}

// An epoch in which no token is used is the last one, because later ones would be empty too.
func TestMixture_EmptyEpochEndsForeverSource(t *testing.T) {
	a := plain(1)
	a.Epochs = mixture.Forever
	c := config(map[string]mixture.Source{"a": a})
	m := open(t, c, map[string]mixture.SourceRange{"a": {First: 1, Last: 3, Sealed: true}})
	for range 3 {
		m.RecordNext(0, 0)
		m.ApplySourceEnds()
	}
	if !m.Ended() {
		t.Error("it goes on")
	}
}

func TestApplyChange_RefusesInvalidChanges(t *testing.T) {
	c := config(map[string]mixture.Source{"a": plain(1), "b": plain(1)})
	m := open(t, c, live(c.Sources))
	begins := map[string]mixture.SourceRange{"c": {First: 1}}
	weights := func(w ...float64) map[string]float64 {
		out := map[string]float64{}
		for i, x := range w {
			out[string(rune('a'+i))] = x
		}
		return out
	}
	before := m.AppendState(nil)
	for want, change := range map[string]mixture.Change{
		"has no weight":       {Weights: weights(1)},
		"all weights are 0":   {Weights: weights(0, 0)},
		"want a number":       {Weights: weights(1, math.NaN())},
		"from 0 to":           {Weights: weights(1, -1)},
		"c is no source":      {Weights: weights(1, 1, 1)},
		"is or was a source":  {Weights: weights(1, 1), Add: map[string]mixture.Source{"a": plain(1)}},
		"no name of a source": {Weights: weights(1, 1), Add: map[string]mixture.Source{"a.b": plain(1)}},
		"d is no source":      {Weights: weights(1, 1), Remove: []string{"d"}},
		"they are [a]":        {Weights: weights(1, 1), Remove: []string{"b"}},
		"epochs: 0":           {Weights: weights(1, 1, 1), Add: map[string]mixture.Source{"c": {Weight: 1}}},
		"source c has no":     {Weights: weights(1, 1), Add: map[string]mixture.Source{"c": plain(1)}},
		"the beginning of source": {Weights: map[string]float64{"a": 1, "b": 1, "e": 1},
			Add: map[string]mixture.Source{"e": plain(1)}},
	} {
		if err := m.ApplyChange(change, begins); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, want %q", change, err, want)
		}
	}
	if !bytes.Equal(m.AppendState(nil), before) {
		t.Error("a refused change changes something")
	}
	must(t, m.ApplyChange(mixture.Change{Weights: map[string]float64{"a": 1, "c": 3},
		Add: map[string]mixture.Source{"c": plain(1)}, Remove: []string{"b"}}, begins))
	near(t, sharesAfter(m, 1e5, map[string]int{"a": 7, "b": 7, "c": 7}), map[string]float64{"a": .25, "b": 0, "c": .75},
		.002)
}

func TestConfig_ValidateReportsFields(t *testing.T) {
	good := func() mixture.Config {
		c := config(map[string]mixture.Source{"web": plain(1), "code": plain(0)})
		c.Mix.Schedule = []mixture.Point{{Tokens: 10, Ramp: 5, Weights: map[string]float64{"web": 1, "code": 1}}}
		return c
	}
	if bad := good().Validate(); len(bad) > 0 {
		t.Fatal(bad)
	}
	source := func(change func(*mixture.Source)) func(*mixture.Config) {
		return func(c *mixture.Config) {
			s := c.Sources["web"]
			change(&s)
			c.Sources["web"] = s
		}
	}
	for want, change := range map[string]func(*mixture.Config){
		"sources.web.weight":              source(func(s *mixture.Source) { s.Weight = math.Inf(1) }),
		"sources: weights that are all 0": source(func(s *mixture.Source) { s.Weight = 0 }),
		"sources.web.epochs":              source(func(s *mixture.Source) { s.Epochs = 0 }),
		"sources.web.block":               source(func(s *mixture.Source) { s.Block = -1 }),
		"sources.web.split.of": source(func(s *mixture.Source) {
			s.Split = mixture.Split{Of: 0, Take: []int{0, 1}}
		}),
		"sources.web.split.take": source(func(s *mixture.Source) {
			s.Split = mixture.Split{Of: 10, Take: []int{3, 10}}
		}),
		"sources.web.min_tokens":   source(func(s *mixture.Source) { s.MinTokens = -1 }),
		"sources.web.max_tokens":   source(func(s *mixture.Source) { s.MinTokens, s.MaxTokens = 9, 8 }),
		"sources: a b":             func(c *mixture.Config) { c.Sources["a b"] = plain(1) },
		"mix.share":                func(c *mixture.Config) { c.Mix.Share = "loss" },
		"mix.on_dry":               func(c *mixture.Config) { c.Mix.OnDry = "" },
		"mix.end":                  func(c *mixture.Config) { c.Mix.End = "last" },
		"mix.schedule[0].after: x": func(c *mixture.Config) { c.Mix.Schedule[0].Tokens, c.Mix.Schedule[0].After = 0, "x" },
		"mix.schedule[0].after: web": func(c *mixture.Config) {
			c.Mix.Schedule[0].Tokens, c.Mix.Schedule[0].After = 0, "web"
			web := c.Sources["web"]
			web.Epochs = mixture.Forever
			c.Sources["web"] = web
		},
		"mix.schedule[0].after: code": func(c *mixture.Config) {
			c.Mix.Schedule[0].Tokens, c.Mix.Schedule[0].After, c.Mix.End = 0, "code", mixture.EndFirst
		},
		"mix.schedule[0].tokens: 10":       func(c *mixture.Config) { c.Mix.Schedule[0].After = "code" },
		"mix.schedule[0].ramp":             func(c *mixture.Config) { c.Mix.Schedule[0].Ramp = -1 },
		"mix.schedule[0].weights.web":      func(c *mixture.Config) { c.Mix.Schedule[0].Weights["web"] = math.NaN() },
		"mix.schedule[0].weights.x":        func(c *mixture.Config) { c.Mix.Schedule[0].Weights["x"] = 1 },
		"mix.schedule[0].weights: map[cod": func(c *mixture.Config) { delete(c.Mix.Schedule[0].Weights, "web") },
		"mix.schedule[1].tokens: 14": func(c *mixture.Config) {
			c.Mix.Schedule = append(c.Mix.Schedule, mixture.Point{Tokens: 14, Weights: c.Mix.Schedule[0].Weights})
		},
	} {
		c := good()
		change(&c)
		if bad := c.Validate(); len(bad) == 0 || !slices.ContainsFunc(bad, func(e mixture.FieldError) bool {
			return strings.HasPrefix(e.Error(), want)
		}) {
			t.Errorf("%q: %v", want, bad)
		}
	}
}

// Two splits that do not overlap share no document. Together they have all documents, and each has its part.
func TestSplit_PartsAreDisjointAndComplete(t *testing.T) {
	train, held := mixture.Split{Of: 1000, Take: []int{0, 989}}, mixture.Split{Of: 1000, Take: []int{990, 999}}
	n := 0
	for id := uint64(1); id <= 100000; id++ {
		a, b := train.Includes(id*0x9e3779b97f4a7c15, id), held.Includes(id*0x9e3779b97f4a7c15, 3*id)
		if a == b {
			t.Fatalf("document %d is in both or none", id)
		}
		if b {
			n++
		}
	}
	if n < 900 || n > 1100 {
		t.Errorf("%d of 100,000 documents are held out", n)
	}
	if train.Includes(0, 5) != train.Includes(5, 77) {
		t.Error("a document without an id does not go by its sequence")
	}
}

// An epoch in a drawn order takes each document once, for all sizes. Another epoch has another order.
func TestEpochOrder_TakesEachDocumentOnce(t *testing.T) {
	for _, block := range []int{1, 2, 7, 64, 8192, 10000} {
		for _, n := range []uint64{1, 2, 5, 63, 64, 65, 1000, 8192, 8193, 20000, 70001} {
			s := plain(1)
			s.Block, s.Epochs = block, 3
			m := open(t, config(map[string]mixture.Source{"a": s}),
				map[string]mixture.SourceRange{"a": {First: 11, Last: 10 + n, Sealed: true}})
			orders := map[string]bool{}
			for epoch := range uint64(2) {
				w, again := m.EpochOrder(0, epoch), m.EpochOrder(0, epoch)
				seen := make([]bool, n)
				var order strings.Builder
				for k := range n {
					s := w.At(k)
					if s < 11 || s > 10+n || seen[s-11] {
						t.Fatalf("block %d, %d documents: document %d is %d", block, n, k, s)
					}
					seen[s-11] = true
					fmt.Fprintln(&order, s)
				}
				for _, k := range []uint64{n - 1, n / 2, 0, n / 3} { // without the positions before
					if a, b := again.At(k), m.EpochOrder(0, epoch).At(k); a != b {
						t.Fatalf("document %d is %d or %d", k, a, b)
					}
				}
				orders[order.String()] = true
			}
			if n > 63 && len(orders) < 2 {
				t.Errorf("block %d, %d documents: two epochs have one order", block, n)
			}
		}
	}
}

// Equal credits are resolved by name, not by the order in which sources were added.
func TestMixture_EqualCreditsResolveByName(t *testing.T) {
	c := config(map[string]mixture.Source{"b": plain(1)})
	m := open(t, c, live(c.Sources))
	must(t, m.ApplyChange(mixture.Change{Weights: map[string]float64{"a": 1, "b": 1},
		Add: map[string]mixture.Source{"a": plain(1)}}, map[string]mixture.SourceRange{"a": {First: 1}}))
	if i, _, _ := m.Next(); m.Name(i) != "a" {
		t.Errorf("%s is first", m.Name(i))
	}
}

// LowWatermark is the first document that may still be taken.
func TestLowWatermark_FirstDocumentThatMayBeTaken(t *testing.T) {
	twice, once, ordered := plain(1), plain(1), plain(1)
	twice.Epochs, twice.Block, once.Block = 2, 2, 2
	c := config(map[string]mixture.Source{"live": plain(1), "once": once, "ordered": ordered, "twice": twice})
	sealed := mixture.SourceRange{First: 5, Last: 9, Sealed: true}
	m := open(t, c, map[string]mixture.SourceRange{"live": {First: 5}, "once": sealed, "ordered": sealed, "twice": sealed})
	have := map[string][]uint64{}
	for i, name := range slices.Sorted(maps.Keys(c.Sources)) {
		for _, p := range []mixture.SourcePosition{{0, 0}, {0, 3}, {0, 5}, {1, 2}, {1, 5}} {
			if name == "twice" || p.Epoch == 0 {
				have[name] = append(have[name], m.LowWatermark(i, p))
			}
		}
	}
	if want := (map[string][]uint64{"live": {5, 8, 10}, "once": {5, 5, 10}, "ordered": {5, 8, 10},
		"twice": {5, 5, 5, 5, 10}}); !maps.EqualFunc(have, want, slices.Equal) {
		t.Error(have)
	}
}

// A state belongs to the unit of its shares.
func TestMixture_RejectsStateOfAnotherShareUnit(t *testing.T) {
	c := config(map[string]mixture.Source{"a": plain(1), "b": plain(2)})
	tokens := open(t, c, live(c.Sources))
	c.Mix.Share = mixture.ShareLossTokens
	loss := open(t, c, live(c.Sources))
	for _, m := range []*mixture.Mixture{tokens, loss} {
		m.RecordNext(10, 4)
	}
	if _, err := tokens.RestoreState(loss.AppendState(nil)); err == nil || !strings.Contains(err.Error(), "of tokens") {
		t.Error(err)
	}
	if _, err := loss.RestoreState(tokens.AppendState(nil)); err == nil || !strings.Contains(err.Error(), "loss_tokens") {
		t.Error(err)
	}
}

// With shares of tokens with a loss, a source whose used documents have none does not stay the next one: each counts as
// one token. A skipped document changes no credit, so the next one is of the same source.
func TestMixture_DocumentsWithoutLoss(t *testing.T) {
	c := config(map[string]mixture.Source{"masked": plain(1), "web": plain(1)})
	c.Mix.Share = mixture.ShareLossTokens
	m := open(t, c, live(c.Sources))
	for range 5 {
		m.RecordNext(0, 0)
		if source, _, _ := m.Next(); m.Name(source) != "masked" {
			t.Fatalf("a skipped document is followed by one of %s", m.Name(source))
		}
	}
	turns := map[string]int{}
	for range 100 {
		source, _, _ := m.Next()
		turns[m.Name(source)]++
		loss := 1
		if m.Name(source) == "masked" {
			loss = 0
		}
		m.RecordNext(50, loss)
		m.ApplySourceEnds()
	}
	if turns["masked"] != 50 || m.Status()[0].LossTokens != 0 || m.Status()[0].Tokens != 2500 {
		t.Errorf("%v, %+v", turns, m.Status())
	}
}

// A source whose documents are all skipped ends after one epoch, even if it is to be read for ever.
func TestMixture_SourceWithOnlySkippedDocumentsEnds(t *testing.T) {
	c := config(map[string]mixture.Source{"masked": {Weight: 1, Epochs: mixture.Forever}, "web": plain(1)})
	c.Mix.Share = mixture.ShareLossTokens
	m := open(t, c, map[string]mixture.SourceRange{"masked": {First: 1, Last: 30, Sealed: true},
		"web": {First: 1, Last: 20, Sealed: true}})
	taken := map[string]int{}
	for n := 0; !m.Ended(); n++ {
		source, _, ok := m.Next()
		if !ok || n > 50 {
			t.Fatalf("document %d: %v, taken %v", n, ok, taken)
		}
		taken[m.Name(source)]++
		tokens := 10
		if m.Name(source) == "masked" {
			tokens = 0
		}
		m.RecordNext(tokens, tokens)
		m.ApplySourceEnds()
	}
	if taken["masked"] != 30 || taken["web"] != 20 {
		t.Error(taken)
	}
}

// A fork with another unit of the shares begins without deviations from them.
func TestReconfigure_AnotherShareUnit(t *testing.T) {
	c := config(map[string]mixture.Source{"a": plain(1), "b": plain(2)})
	m := open(t, c, live(c.Sources))
	for range 20 {
		m.RecordNext(10, 3)
		m.ApplySourceEnds()
	}
	must(t, m.ApplyChange(mixture.Change{Weights: map[string]float64{"a": 5, "b": 1}}, nil))
	next := c
	next.Mix.Share = mixture.ShareTokens // the default, written out
	must(t, m.Reconfigure(next, nil))
	if s := m.Status(); s[0].Target < .8 || s[0].Credit == 0 {
		t.Errorf("an unchanged mixture begins again: %+v", s)
	}
	next.Mix.Share = mixture.ShareLossTokens
	must(t, m.Reconfigure(next, nil))
	for _, s := range m.Status() {
		if s.Credit != 0 || s.LossTokens != 0 || s.Tokens == 0 || s.Target > .7 {
			t.Errorf("%+v", s)
		}
	}
	m.RecordNext(10, 3)
	restored := open(t, next, live(c.Sources))
	_, err := restored.RestoreState(m.AppendState(nil))
	must(t, err)
	if !slices.Equal(restored.Status(), m.Status()) {
		t.Errorf("%+v becomes %+v", m.Status(), restored.Status())
	}
}

// fuzzedConfig returns the configuration of FuzzRestoreState for a state: its version determines the unit.
func fuzzedConfig(state []byte) mixture.Config {
	s := plain(1)
	s.Block, s.Epochs = 3, 2
	c := config(map[string]mixture.Source{"a": s, "b": plain(2)})
	c.Mix.Schedule = []mixture.Point{{Tokens: 100, Ramp: 1000, Weights: map[string]float64{"a": 1, "b": 5}}}
	if len(state) > 0 && state[0] == 2 {
		c.Mix.Share = mixture.ShareLossTokens
	}
	return c
}

func FuzzRestoreState(f *testing.F) {
	begins := map[string]mixture.SourceRange{"a": {First: 1, Last: 9, Sealed: true}, "b": {First: 1}}
	for version := range byte(2) {
		m := open(f, fuzzedConfig([]byte{1 + version}), begins)
		for range 40 {
			f.Add(m.AppendState(nil))
			m.RecordNext(17, 5)
			m.ApplySourceEnds()
		}
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		m := open(t, fuzzedConfig(b), begins)
		before := m.AppendState(nil)
		if _, err := m.RestoreState(b); err != nil {
			if !bytes.Equal(m.AppendState(nil), before) {
				t.Error("a refused state changes something")
			}
			return
		}
		for range 50 { // the restored mixture continues
			if _, _, ok := m.Next(); !ok {
				return
			}
			m.RecordNext(50, 20)
			m.ApplySourceEnds()
		}
	})
}

func BenchmarkMixture_RecordNext(b *testing.B) {
	for _, n := range []int{5, 20, 200} {
		b.Run(fmt.Sprint(n, " sources"), func(b *testing.B) {
			c := config(map[string]mixture.Source{})
			for i := range n {
				c.Sources[fmt.Sprint("s", i)] = plain(1 + float64(i%7))
			}
			m := open(b, c, live(c.Sources))
			for i := range b.N {
				m.RecordNext(100+i%1000, 100+i%1000)
				m.ApplySourceEnds()
				m.Next()
			}
		})
	}
}

// Place of every document is the position at which it is taken, and NewEpochOrder has the order of the mixture.
func TestEpochOrder_PlaceIsPositionOfDocument(t *testing.T) {
	for _, n := range []uint64{0, 1, 5, 64, 8191, 8192, 20_003} {
		for _, block := range []int{0, 1, 7, 64, 9000} {
			c := plain(1)
			c.Epochs, c.Block = 3, block
			begin := mixture.SourceRange{First: 11, Last: 10 + n, Sealed: true}
			m := open(t, config(map[string]mixture.Source{"a": c}), map[string]mixture.SourceRange{"a": begin})
			for epoch := range uint64(3) {
				w, of := m.EpochOrder(0, epoch), mixture.NewEpochOrder(7, "a", c, begin, begin.Last, epoch)
				for k := uint64(0); k < n; k += 1 + k/50 {
					sequence := w.At(k)
					if have, ok := of.Index(sequence); !ok || have != k || of.At(k) != sequence {
						t.Fatalf("%d documents by %d, epoch %d: document %d has place %d (%t), want %d", n, block, epoch, sequence,
							have, ok, k)
					}
				}
				for _, sequence := range []uint64{0, 10, 11 + n, 1 << 40} {
					if have, ok := of.Index(sequence); ok && (n > 0 || block > 0) {
						t.Fatalf("%d documents by %d, epoch %d: document %d has place %d", n, block, epoch, sequence, have)
					}
				}
			}
		}
	}
}
