package daemon

import (
	"fmt"
	"log/slog"
	"os"
	"path/filepath"

	"github.com/prometheus/client_golang/prometheus"

	"loaderd/internal/build"
	"loaderd/internal/config"
	"loaderd/stream/tokenstore"
)

// tokenFolder is the folder of the token store in the data folder of an embedded server.
const tokenFolder = "tokens"

// OpenTokenStore opens the configured token store. It returns nil if there is none, also if it cannot be opened,
// because no batch depends on it. The caller must close it. The data folder must have been opened.
func OpenTokenStore(c *config.Config, log *slog.Logger) *tokenstore.Store {
	folder := tokenStoreFolder(c)
	if folder == "" || c.Serve.TokenStore.MaxBytes == 0 {
		return nil
	}
	store, err := tokenstore.Open(folder, c.Serve.TokenStore.MaxBytes, buildVersion(), log)
	if err != nil {
		log.Warn("documents are not cached on disk: set serve.token_store.dir, or serve.token_store.max_bytes to 0", "error",
			err)
		return nil
	}
	return store
}

// tokenStoreFolder returns the folder of the token store; empty for none.
func tokenStoreFolder(c *config.Config) string {
	if c.Serve.TokenStore.Dir != "" {
		return c.Serve.TokenStore.Dir
	}
	folder := filepath.Join(c.Stream.Dir, tokenFolder)
	if _, err := os.Stat(folder); err == nil || c.Stream.Embedded() { // a command reads it while the daemon runs
		return folder
	}
	return ""
}

// buildVersion identifies the code that makes tokens. Builds between releases also differ by their executable.
func buildVersion() string {
	b := build.This()
	version := b.Version + " " + b.Revision
	if !b.Modified && b.Revision != "" {
		return version
	}
	if name, err := os.Executable(); err == nil {
		if info, err := os.Stat(name); err == nil {
			version += fmt.Sprintf(" %d %d", info.Size(), info.ModTime().UnixNano())
		}
	}
	return version
}

// tokenStoreMetrics are the metrics of a token store.
type tokenStoreMetrics struct{ store *tokenstore.Store }

var tokenStoreDescs = []struct {
	desc  *prometheus.Desc
	kind  prometheus.ValueType
	value func(tokenstore.Stats) int64
}{
	{prometheus.NewDesc("loaderd_token_store_bytes", "Size of the token store on disk.", nil, nil),
		prometheus.GaugeValue, func(s tokenstore.Stats) int64 { return s.Bytes }},
	{prometheus.NewDesc("loaderd_token_store_hits_total", "Documents read from the token store instead of tokenized.",
		nil, nil), prometheus.CounterValue, func(s tokenstore.Stats) int64 { return s.Hits }},
	{prometheus.NewDesc("loaderd_token_store_misses_total", "Documents that the token store did not have.", nil, nil),
		prometheus.CounterValue, func(s tokenstore.Stats) int64 { return s.Misses }},
	{prometheus.NewDesc("loaderd_token_store_dropped_total",
		"Documents not written to the token store, because its disk was slow or full.", nil, nil),
		prometheus.CounterValue, func(s tokenstore.Stats) int64 { return s.Dropped }},
	{prometheus.NewDesc("loaderd_token_store_damaged_total",
		"Reads of the token store that found damaged data.", nil, nil), prometheus.CounterValue,
		func(s tokenstore.Stats) int64 { return s.Damaged }},
}

// Describe implements prometheus.Collector.
func (m tokenStoreMetrics) Describe(out chan<- *prometheus.Desc) {
	for _, x := range tokenStoreDescs {
		out <- x.desc
	}
}

// Collect implements prometheus.Collector. Without a store all values are 0.
func (m tokenStoreMetrics) Collect(out chan<- prometheus.Metric) {
	s := m.store.Stats()
	for _, x := range tokenStoreDescs {
		out <- prometheus.MustNewConstMetric(x.desc, x.kind, float64(x.value(s)))
	}
}
