package demo

import "loaderd/internal/config"

// Run is the name of the demo's run.
const Run = "demo"

// Settings returns the settings of a normal daemon that stores its data in folder and listens on free loopback ports.
// overrides take precedence over the demo's settings.
func Settings(folder string, overrides []config.Override) []config.Override {
	own := []config.Override{
		{Path: "run", Value: Run}, {Path: "stream.dir", Value: folder}, {Path: "log.level", Value: "warn"},
		// Limits that fit the disk space and the documents of a demo.
		{Path: "stream.max_bytes", Value: "4GiB"}, {Path: "stream.dead_letter_bytes", Value: "64MiB"},
		{Path: "stream.plan_bytes", Value: "1GiB"},
		{Path: "stream.max_document", Value: "7MiB"}, {Path: "serve.cache_bytes", Value: "96MiB"},
		// One worker tokenizes faster than the demo publishes, and each worker has its own tables in memory.
		{Path: "stream.workers", Value: "1"},
	}
	for _, path := range []string{"stream.listen", "flight.listen", "http.listen"} {
		own = append(own, config.Override{Path: path, Value: "127.0.0.1:0"})
	}
	return append(own, overrides...)
}
