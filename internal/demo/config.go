package demo

import "loaderd/internal/config"

// Run is the name of the demo's run.
const Run = "demo"

// Config is the configuration of a real daemon that keeps its data in a folder, on free loopback ports; overrides go
// over the demo's own.
func Config(folder string, overrides []config.Override) (config.Config, error) {
	own := []config.Override{
		{Path: "run", Value: Run}, {Path: "stream.dir", Value: folder}, {Path: "log.level", Value: "warn"},
		// Bounds that fit the disks and the documents of a demo.
		{Path: "stream.max_bytes", Value: "4GiB"}, {Path: "stream.dead_letter_bytes", Value: "64MiB"},
		{Path: "stream.plan_bytes", Value: "1GiB"},
		{Path: "stream.max_document", Value: "7MiB"}, {Path: "serve.cache_bytes", Value: "96MiB"},
		// One tokenizes more than is published beside it, and each has tables of its own.
		{Path: "stream.workers", Value: "1"},
	}
	for _, path := range []string{"stream.listen", "flight.listen", "http.listen"} {
		own = append(own, config.Override{Path: path, Value: "127.0.0.1:0"})
	}
	return config.Load(config.Layers{Overrides: append(own, overrides...)})
}
