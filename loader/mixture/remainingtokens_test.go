package mixture_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"loaderd/loader/mixture"
)

// Lasts equals the number of tokens that the run takes to its end, from any point of it.
func TestRemainingTokens_EqualsTokensToEnd(t *testing.T) {
	point := func(tokens, ramp mixture.Tokens, web, code, math float64) mixture.Point {
		return mixture.Point{Tokens: tokens, Ramp: ramp, Weights: map[string]float64{"web": web, "code": code, "math": math}}
	}
	for name, change := range map[string]func(*mixture.Config){
		"all":      func(*mixture.Config) {},
		"first":    func(c *mixture.Config) { c.Mix.End = mixture.EndFirst },
		"schedule": func(c *mixture.Config) { c.Mix.Schedule = []mixture.Point{point(9000, 7001, 0.1, 0.2, 0.7)} },
		"schedule, first": func(c *mixture.Config) {
			c.Mix.End, c.Mix.Schedule = mixture.EndFirst, []mixture.Point{point(5000, 0, 0, 0.5, 0.5),
				point(20000, 999, 1, 0.001, 0.001)}
		},
		"a weight that arrives late": func(c *mixture.Config) {
			c.Sources["math"] = mixture.Source{Weight: 0, Epochs: 3}
			c.Mix.End, c.Mix.Schedule = mixture.EndFirst, []mixture.Point{point(1e9, 50, 0, 0, 1)}
		},
		"tokens with a loss": func(c *mixture.Config) { c.Mix.Share = mixture.ShareLossTokens },
		"tokens with a loss, schedule": func(c *mixture.Config) {
			c.Mix.Share, c.Mix.Schedule = mixture.ShareLossTokens, []mixture.Point{point(9000, 7001, 0.1, 0.2, 0.7)}
			c.Mix.End = mixture.EndFirst
		},
		"for ever, first": func(c *mixture.Config) {
			c.Sources["web"] = mixture.Source{Weight: 2, Epochs: mixture.Forever}
			c.Mix.End = mixture.EndFirst
		},
	} {
		t.Run(name, func(t *testing.T) {
			lossParts := []float64{0.5, 0.2, 1}
			c := config(map[string]mixture.Source{"code": plain(1), "math": {Weight: 0.5, Epochs: 3}, "web": plain(2)})
			change(&c)
			draw := rand.New(rand.NewPCG(1, 2))
			lengths, begins := map[string][]int{}, map[string]mixture.SourceRange{}
			for i, source := range []string{"code", "math", "web"} {
				for range []int{700, 250, 1100}[i] {
					lengths[source] = append(lengths[source], 1+draw.IntN(30))
				}
				begins[source] = mixture.SourceRange{First: 1, Last: uint64(len(lengths[source])), Sealed: true}
			}
			m := open(t, c, begins)
			type forecast struct{ at, lasts float64 }
			var forecasts []forecast
			for n := 0; !m.Ended(); n++ {
				if n%37 == 0 {
					lasts, how := m.RemainingTokens(left(m, lengths), lossParts)
					if how != mixture.Finite {
						t.Fatalf("behind %d documents it is to end so: %d", n, how)
					}
					forecasts = append(forecasts, forecast{float64(m.Tokens()), lasts})
				}
				source, sequence, ok := m.Next()
				if !ok {
					t.Fatal("no source comes next")
				}
				n := lengths[m.Name(source)][sequence-1]
				m.RecordNext(n, max(int(math.Round(float64(n)*lossParts[source])), 1))
				m.ApplySourceEnds()
			}
			for _, f := range forecasts {
				if off := math.Abs(f.at + f.lasts - float64(m.Tokens())); off > 3*30*3 {
					t.Errorf("behind %.0f tokens it is to take %.0f more, and it takes %d in all", f.at, f.lasts, m.Tokens())
				}
			}
		})
	}
}

// left returns the number of tokens that each source has left.
func left(m *mixture.Mixture, lengths map[string][]int) []float64 {
	var out []float64
	for _, s := range m.Status() {
		sum := 0
		for _, n := range lengths[s.Name] {
			sum += n
		}
		n := float64(sum*int(s.Epochs)) - float64(s.Tokens)
		if s.Epochs == mixture.Forever {
			n = math.Inf(1)
		}
		out = append(out, n)
	}
	return out
}

// Lasts reports a run that does not end without intervention.
func TestRemainingTokens_ReportsEndlessRun(t *testing.T) {
	for _, x := range []struct {
		name string
		code mixture.Source
		left []float64
		end  string
		how  mixture.RunEnd
	}{
		{"for ever", mixture.Source{Weight: 1, Epochs: mixture.Forever}, []float64{math.Inf(1), 100}, mixture.EndAll,
			mixture.Endless},
		{"for ever, and the other ends it", mixture.Source{Weight: 1, Epochs: mixture.Forever}, []float64{math.Inf(1), 100},
			mixture.EndFirst, mixture.Finite},
		{"no weight", plain(0), []float64{100, 100}, mixture.EndAll, mixture.Idle},
		{"no weight and no documents", plain(0), []float64{0, 100}, mixture.EndAll, mixture.Finite},
		{"no documents", plain(1), []float64{0, 0}, mixture.EndAll, mixture.Finite},
	} {
		c := config(map[string]mixture.Source{"code": x.code, "web": plain(1)})
		c.Mix.End = x.end
		m := open(t, c, live(c.Sources))
		before := fmt.Sprint(m.Status())
		tokens, how := m.RemainingTokens(x.left, nil)
		if how != x.how || how != mixture.Finite && tokens != 0 {
			t.Errorf("%s: %.0f tokens, ending %d, want %d", x.name, tokens, how, x.how)
		}
		if after := fmt.Sprint(m.Status()); after != before {
			t.Errorf("%s: asking changes the mixture: %s, %s", x.name, before, after)
		}
	}
}

// A paused source that has documents is resumed. Remaining documents of a removed source are not taken.
func TestRemainingTokens_PausedAndRemovedSources(t *testing.T) {
	c := config(map[string]mixture.Source{"code": plain(1), "math": plain(1), "web": plain(2)})
	m := open(t, c, live(c.Sources))
	must(t, m.Rest(0, true))
	must(t, m.ApplyChange(mixture.Change{Weights: map[string]float64{"code": 1, "web": 1}, Remove: []string{"math"}}, nil))
	if tokens, how := m.RemainingTokens([]float64{1000, 5000, 3000}, nil); how != mixture.Finite || tokens != 4000 {
		t.Errorf("%.0f tokens, ending %d, want 4000", tokens, how)
	}
}
