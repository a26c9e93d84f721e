package main

import (
	"fmt"
	"io"
	"math"
	"strings"

	"github.com/google/pprof/profile"
)

// owners are the stages of the path. A sample belongs to the first stage that one of its frames names, innermost
// first.
var owners = []struct{ stage, frame string }{
	{"tokenize", "loaderd/tokenizer"},
	{"pack and shuffle", "loaderd/packonline"},
	{"pack and shuffle", "loaderd/shuffle."},
	{"assemble rows", "loaderd/loader/assembly"},
	{"assemble rows", "loaderd/loader/document.Widen"},
	{"read and decode", "loaderd/loader/document"},
	{"plan", "loaderd/loader"},
	{"JetStream server", "nats-server/v2/server."},
	{"JetStream client", "nats-io/nats%2ego"},
	{"read and decode", "loaderd/stream"},
	{"Flight", "loaderd/arrowout"},
	{"Flight", "google.golang.org/grpc"},
	{"garbage collector", "runtime.gcBgMarkWorker"},
	{"garbage collector", "runtime.bgsweep"},
	{"garbage collector", "runtime.gcAssistAlloc"},
	{"scheduler", "runtime.schedule"},
	{"scheduler", "runtime.mcall"},
}

// stages returns each stage's share of the CPU time in a profile, in percent.
func stages(r io.Reader) (map[string]float64, error) {
	p, err := profile.Parse(r)
	if err != nil {
		return nil, fmt.Errorf("parse CPU profile: %w", err)
	}
	out := map[string]float64{}
	var total float64
	for _, s := range p.Sample {
		v := float64(s.Value[len(s.Value)-1])
		out[owner(s)] += v
		total += v
	}
	for k, v := range out {
		out[k] = math.Round(1000*v/total) / 10
	}
	return out, nil
}

func owner(s *profile.Sample) string {
	for _, l := range s.Location {
		for _, line := range l.Line {
			for _, o := range owners {
				if strings.Contains(line.Function.Name, o.frame) {
					return o.stage
				}
			}
		}
	}
	return "other"
}
