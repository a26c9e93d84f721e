package runcmd

import (
	"io"
	"testing"

	"loaderd/internal/goldentest"
	"loaderd/loader"
	"loaderd/loader/plan"
	"loaderd/loader/state"
)

// TestInfo_GoldenOutput compares the output of info with golden files.
func TestInfo_GoldenOutput(t *testing.T) {
	info := loader.Info{Run: "pretrain", ID: "0123456789abcdef", Planned: 12_345, Committed: 12_000, Oldest: 10_240}
	with := func(change func(*loader.Info)) loader.Info {
		x := info
		change(&x)
		return x
	}
	for name, i := range map[string]loader.Info{
		"unknown": info,
		"ended":   with(func(i *loader.Info) { i.Ended, i.Length = true, &state.Length{Steps: 12_345, Exact: true} }),
		"estimate": with(func(i *loader.Info) {
			i.Length = &state.Length{Steps: 1_234_567, Error: 23_456, MeasuredFraction: 0.421}
		}),
		"open": with(func(i *loader.Info) {
			i.Length = &state.Length{Steps: 20_000, Error: 150, OpenSources: []string{"code", "web"}}
			i.Leader = "grpc://one:8815"
			for _, name := range []string{"code", "math", "web"} {
				i.Sources = append(i.Sources, plan.SourceInfo{SourceBegin: plan.SourceBegin{Name: name}})
			}
		}),
		"skipped": with(func(i *loader.Info) { i.Skipped = map[string]uint64{"trainer": 300, "eval": 1} }),
		"endless": with(func(i *loader.Info) { i.Length = &state.Length{Endless: true} }),
		"idle":    with(func(i *loader.Info) { i.Length = &state.Length{Idle: true} }),
	} {
		goldentest.Compare(t, "show/"+name+".txt", func(w io.Writer) error { return writeInfo(w, i) })
	}
}
