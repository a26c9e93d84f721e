package daemon

import (
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"loaderd/internal/auth"
	"loaderd/loader"
	"loaderd/loader/plan"
	"loaderd/loader/planner"
	"loaderd/stream/deadletter"
)

// runMetrics collects a daemon's metrics under stable names, which docs/metrics.md lists.
type runMetrics struct {
	run  *loader.Run
	docs letters
}

// letters counts the dead letters of a document stream, or of those of all sources.
type letters interface{ DeadLetters() deadletter.Counts }

// metricSnapshot is a snapshot of all values at one moment.
type metricSnapshot struct {
	loader.Stats
	letters deadletter.Counts
}

type metric struct {
	desc  *prometheus.Desc
	kind  prometheus.ValueType
	value func(metricSnapshot) float64
}

func counter(name, help string, value func(metricSnapshot) float64) metric {
	return metric{prometheus.NewDesc("loaderd_"+name, help, nil, nil), prometheus.CounterValue, value}
}

func gauge(name, help string, value func(metricSnapshot) float64) metric {
	return metric{prometheus.NewDesc("loaderd_"+name, help, nil, nil), prometheus.GaugeValue, value}
}

// expiryCollector collects the expiry time of credentials that were read from files.
func expiryCollector(what string, r auth.Reloader) prometheus.Collector {
	return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "loaderd_expires_timestamp_seconds",
		Help:        "When the certificate of Flight or HTTP, or the first identity, expires; 0 never.",
		ConstLabels: prometheus.Labels{"what": strings.ReplaceAll(what, " ", "_")}}, func() float64 {
		at := r.Expires()
		if at.IsZero() {
			return 0
		}
		return float64(at.Unix())
	})
}

func boolValue(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

// skipMetrics returns one metric of skipped documents per reason.
func skipMetrics() (all []metric) {
	for why := range (plan.Skips{}).All() {
		all = append(all, counter(string(why)+"_documents_total", "Documents skipped: "+why.Text()+".",
			func(s metricSnapshot) float64 { return float64(s.Skipped.Count(why)) }))
	}
	return all
}

var metrics = append(skipMetrics(), []metric{
	counter("planned_steps_total", "Steps in the plan.", func(s metricSnapshot) float64 { return float64(s.Planned) }),
	counter("documents_total", "Documents that the packer has taken in, waiting ones included.",
		func(s metricSnapshot) float64 {
			return float64(s.Documents)
		}),
	counter("tokens_total", "Tokens of the documents that the packer has taken in.", func(s metricSnapshot) float64 {
		return float64(s.Tokens)
	}),
	counter("masked_tokens_total", "Tokens in steps that have no loss.", func(s metricSnapshot) float64 {
		return float64(s.MaskedTokens)
	}),
	counter("dead_letters_total", "Dead letters stored by this process.", func(s metricSnapshot) float64 {
		return float64(s.letters.Stored)
	}),
	counter("dead_letter_failures_total", "Attempts to store a dead letter that failed.", func(s metricSnapshot) float64 {
		return float64(s.letters.Failed)
	}),
	gauge("dead_letters_waiting", "Dead letters that wait to be stored.", func(s metricSnapshot) float64 {
		return float64(s.letters.Waiting)
	}),
	counter("cut_documents_total",
		"Documents used without their last tokens because they have more than they may (documents.max_tokens).",
		func(s metricSnapshot) float64 { return float64(s.Cut) }),
	counter("rows_total", "Rows in steps.", func(s metricSnapshot) float64 { return float64(s.Rows) }),
	counter("slots_total", "Tokens of the rows in steps, padding included.", func(s metricSnapshot) float64 {
		return float64(s.Slots)
	}),
	counter("padding_tokens_total", "Padding tokens in steps.", func(s metricSnapshot) float64 {
		return float64(s.Padding)
	}),
	counter("truncated_documents_total", "Documents split into more than one piece.", func(s metricSnapshot) float64 {
		return float64(s.Truncated)
	}),
	counter("dropped_tokens_total", "Tokens dropped on purpose.", func(s metricSnapshot) float64 {
		return float64(s.Dropped)
	}),
	counter("repeated_tokens_total", "Tokens emitted twice on purpose.", func(s metricSnapshot) float64 {
		return float64(s.Repeated)
	}),
	gauge("span_age_max_documents", "Largest age of a piece when its row was packed.", func(s metricSnapshot) float64 {
		return float64(s.MaxAge)
	}),
	gauge("pool_spans", "Pieces that wait to be packed.", func(s metricSnapshot) float64 {
		return float64(s.PoolPieces)
	}),
	gauge("holdback_rows", "Finished rows that are held back (packing.holdback).", func(s metricSnapshot) float64 {
		return float64(s.HeldRows)
	}),
	gauge("holdback_spans", "Pieces in the rows that are held back.", func(s metricSnapshot) float64 {
		return float64(s.HeldPieces)
	}),
	gauge("pool_tokens", "Tokens of the pieces that wait to be packed, and of those in rows that are held back.",
		func(s metricSnapshot) float64 { return float64(s.PoolTokens) }),
	gauge("shuffle_rows", "Atoms in the shuffle window: rows, unless packing.atom says otherwise.",
		func(s metricSnapshot) float64 { return float64(s.WindowRows) }),
	gauge("queue_rows", "Rows that wait for the rest of their atom or for a full step.", func(s metricSnapshot) float64 {
		return float64(s.QueueRows)
	}),
	gauge("cursor_sequence", "Documents of all sources that the planner has taken.", func(s metricSnapshot) float64 {
		return float64(s.Cursor)
	}),
	gauge("low_watermark_sequence",
		"Of the documents in the order in which the planner took them, the oldest that a later step may need.",
		func(s metricSnapshot) float64 { return float64(s.LowWatermark) }),
	gauge("stream_last_sequence", "Last document in the stream.", func(s metricSnapshot) float64 {
		return float64(s.Source.Last)
	}),
	gauge("stream_fetched_sequence", "Last document fetched from the stream.", func(s metricSnapshot) float64 {
		return float64(s.Source.Fetched)
	}),
	gauge("stream_buffered_bytes", "Bytes of documents fetched and not yet planned.", func(s metricSnapshot) float64 {
		return float64(s.Source.Buffered)
	}),
	counter("replaced_bytes_total", "Bytes of texts that are not UTF-8 and became U+FFFD.",
		func(s metricSnapshot) float64 {
			return float64(s.Source.Replaced)
		}),
	gauge("stream_down", "1 while the document stream is out of reach.", func(s metricSnapshot) float64 {
		return boolValue(!s.Source.DownSince.IsZero())
	}),
	gauge("stream_dry", "1 while every document of the stream has been fetched.", func(s metricSnapshot) float64 {
		return boolValue(!s.Source.DrySince.IsZero())
	}),
	gauge("stream_trouble",
		"1 while the document stream lacks documents that may be needed or has settings that may lose some.",
		func(s metricSnapshot) float64 { return boolValue(s.StreamProblem != "") }),
	gauge("queue_wait_max_documents", "Most documents that came while a row waited for its step.",
		func(s metricSnapshot) float64 { return float64(s.MaxWait) }),
	gauge("next_step_rows_needed", "Rows that the next step needs, with those that stay behind it.",
		func(s metricSnapshot) float64 { return float64(s.RowsNeeded) }),
	gauge("next_step_rows_ready", "Rows of those that the next step needs that are there.",
		func(s metricSnapshot) float64 {
			return float64(s.RowsReady)
		}),
	gauge("oldest_step", "Oldest step that can be read.", func(s metricSnapshot) float64 { return float64(s.Oldest) }),
	gauge("committed_step", "The checkpoints of all committing jobs cover all steps before this one.",
		func(s metricSnapshot) float64 {
			return float64(s.Committed)
		}),
	gauge("checkpoint_step", "Step of the newest planner checkpoint of this process.", func(s metricSnapshot) float64 {
		return float64(s.Checkpoint)
	}),
	gauge("checkpoint_bytes", "Size of the newest planner checkpoint of this process.", func(s metricSnapshot) float64 {
		return float64(s.CheckpointBytes)
	}),
	gauge("replaying", "1 while the daemon re-plans after a restart.", func(s metricSnapshot) float64 {
		return boolValue(s.Replaying)
	}),
	gauge("ended", "1 when no step follows.", func(s metricSnapshot) float64 { return boolValue(s.Ended) }),
	gauge("readers", "Readers connected.", func(s metricSnapshot) float64 { return float64(len(s.Readers)) }),
	gauge("cache_bytes", "Tokens cached for row assembly.", func(s metricSnapshot) float64 {
		return float64(s.CacheBytes)
	}),
	counter("cache_hits_total", "Documents that a step found in the cache, those that were read ahead for it included.",
		func(s metricSnapshot) float64 { return float64(s.CacheHits) }),
	counter("cache_misses_total", "Documents that a step lacked, waited for and fetched from the stream again.",
		func(s metricSnapshot) float64 { return float64(s.CacheMisses) }),
}...)

// bucketMetric is a metric with one value per bucket.
type bucketMetric struct {
	desc  *prometheus.Desc
	kind  prometheus.ValueType
	value func(planner.QueueStat) float64
}

func newBucketMetric(kind prometheus.ValueType, name, help string, value func(planner.QueueStat) float64) bucketMetric {
	return bucketMetric{prometheus.NewDesc("loaderd_"+name, help, []string{"bucket"}, nil), kind, value}
}

var bucketMetrics = []bucketMetric{
	newBucketMetric(prometheus.CounterValue, "bucket_steps_total", "Steps in the plan, by the length of their rows.",
		func(q planner.QueueStat) float64 { return float64(q.Steps) }),
	newBucketMetric(prometheus.GaugeValue, "bucket_queue_rows", "Rows of the bucket that wait for a step.",
		func(q planner.QueueStat) float64 { return float64(q.Rows) }),
	newBucketMetric(prometheus.GaugeValue, "bucket_queue_tokens", "Tokens of the rows of the bucket that wait for a step.",
		func(q planner.QueueStat) float64 { return float64(q.Tokens) }),
	newBucketMetric(prometheus.GaugeValue, "bucket_queue_wait_documents",
		"Documents that came while the oldest row of the bucket that waits for a step waited.",
		func(q planner.QueueStat) float64 { return float64(q.Wait) }),
}

// spliceRowsDesc counts the rows of splice by the way they ended, under splice's own names.
var spliceRowsDesc = prometheus.NewDesc("loaderd_splice_rows_total", "Rows that splice has packed, by how they ended.",
	[]string{"end"}, nil)

// noHintsDesc counts documents that splice relates to no other document.
var noHintsDesc = prometheus.NewDesc("loaderd_splice_unhinted_documents_total",
	"Documents without what the retriever of splice compares: a path, an embedding.", nil, nil)

// collectSplice collects the counters of splice, and nothing for other methods.
func collectSplice(out chan<- prometheus.Metric, ends map[string]int64) {
	for name, n := range ends {
		if end, ok := strings.CutPrefix(name, "rows_"); ok {
			out <- prometheus.MustNewConstMetric(spliceRowsDesc, prometheus.CounterValue, float64(n),
				strings.TrimPrefix(end, "ended_"))
		}
	}
	if n, ok := ends["documents_silent"]; ok {
		out <- prometheus.MustNewConstMetric(noHintsDesc, prometheus.CounterValue, float64(n))
	}
}

// Describe implements prometheus.Collector.
func (m runMetrics) Describe(out chan<- *prometheus.Desc) {
	for _, x := range metrics {
		out <- x.desc
	}
	for _, x := range bucketMetrics {
		out <- x.desc
	}
	for _, x := range sourceMetrics {
		out <- x.desc
	}
	for _, x := range streamMetrics {
		out <- x.desc
	}
	out <- skippedDocumentsDesc
	out <- spliceRowsDesc
	out <- noHintsDesc
}

// Collect implements prometheus.Collector. All values are of one moment.
func (m runMetrics) Collect(out chan<- prometheus.Metric) {
	s := metricSnapshot{m.run.Stats(), m.docs.DeadLetters()}
	for _, x := range metrics {
		out <- prometheus.MustNewConstMetric(x.desc, x.kind, x.value(s))
	}
	for _, x := range bucketMetrics {
		for _, q := range s.Queues {
			out <- prometheus.MustNewConstMetric(x.desc, x.kind, x.value(q), strconv.Itoa(q.Bucket))
		}
	}
	collectSources(out, s.Stats, time.Now())
	for _, x := range streamMetrics {
		for _, f := range s.Streams {
			out <- prometheus.MustNewConstMetric(x.desc, prometheus.GaugeValue, x.value(f), f.Name, f.Source)
		}
	}
	collectSplice(out, s.PackingCounters)
}
