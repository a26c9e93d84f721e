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
	"loaderd/loader/runconfig"
	"loaderd/stream/deadletter"
)

// runMetrics collects a daemon's metrics under stable names, which docs/reference/metrics.md lists.
type runMetrics struct {
	run  *loader.Run
	docs letters
}

// letters counts the dead letters of a document stream, or of those of all sources.
type letters interface{ DeadLetters() deadletter.Counts }

// metricSnapshot is a snapshot of all values at one moment.
type metricSnapshot struct {
	loader.Stats
	letters  deadletter.Counts
	schedule runconfig.Schedule
	change   runconfig.ScheduleChange // the next one, zero for none
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
		Help:        "Time at which the certificate of Flight or HTTP, or the first identity, expires; 0 never.",
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
	counter("documents_total", "Documents that the packer has received, including buffered ones.",
		func(s metricSnapshot) float64 {
			return float64(s.Documents)
		}),
	counter("tokens_total", "Tokens of the documents that the packer has received.", func(s metricSnapshot) float64 {
		return float64(s.Tokens)
	}),
	counter("masked_tokens_total", "Tokens in steps without a loss.", func(s metricSnapshot) float64 {
		return float64(s.MaskedTokens)
	}),
	counter("dead_letters_total", "Dead letters stored by this process.", func(s metricSnapshot) float64 {
		return float64(s.letters.Stored)
	}),
	counter("dead_letter_failures_total", "Attempts to store a dead letter that failed.", func(s metricSnapshot) float64 {
		return float64(s.letters.Failed)
	}),
	gauge("dead_letters_waiting", "Dead letters not yet stored.", func(s metricSnapshot) float64 {
		return float64(s.letters.Waiting)
	}),
	counter("cut_documents_total",
		"Documents cut at documents.max_tokens.",
		func(s metricSnapshot) float64 { return float64(s.Cut) }),
	counter("rows_total", "Rows in steps.", func(s metricSnapshot) float64 { return float64(s.Rows) }),
	counter("slots_total", "Tokens of the rows in steps, including padding.", func(s metricSnapshot) float64 {
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
	gauge("pool_spans", "Pieces buffered for packing.", func(s metricSnapshot) float64 {
		return float64(s.PoolPieces)
	}),
	gauge("holdback_rows", "Finished rows in the holdback (packing.holdback).", func(s metricSnapshot) float64 {
		return float64(s.HeldRows)
	}),
	gauge("holdback_spans", "Pieces of the rows in the holdback.", func(s metricSnapshot) float64 {
		return float64(s.HeldPieces)
	}),
	gauge("pool_tokens", "Tokens of the pieces buffered for packing and of the rows in the holdback.",
		func(s metricSnapshot) float64 { return float64(s.PoolTokens) }),
	gauge("shuffle_rows", "Atoms in the shuffle window: rows, unless packing.atom differs.",
		func(s metricSnapshot) float64 { return float64(s.WindowRows) }),
	gauge("queue_rows", "Rows that wait for other rows of their atom or for a full step.", func(s metricSnapshot) float64 {
		return float64(s.QueueRows)
	}),
	gauge("cursor_sequence", "Documents of all sources that the planner has received.", func(s metricSnapshot) float64 {
		return float64(s.Cursor)
	}),
	gauge("low_watermark_sequence",
		"Arrival of the oldest document that a later step may need.",
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
	counter("replaced_bytes_total", "Bytes of invalid UTF-8 in texts, replaced by U+FFFD.",
		func(s metricSnapshot) float64 {
			return float64(s.Source.Replaced)
		}),
	gauge("stream_down", "1 while the document stream is unreachable.", func(s metricSnapshot) float64 {
		return boolValue(!s.Source.DownSince.IsZero())
	}),
	gauge("stream_dry", "1 while every document of the stream has been fetched.", func(s metricSnapshot) float64 {
		return boolValue(!s.Source.DrySince.IsZero())
	}),
	gauge("stream_trouble",
		"1 while the document stream lacks documents that may be needed or has settings that can lose documents.",
		func(s metricSnapshot) float64 { return boolValue(s.StreamProblem != "") }),
	gauge("queue_wait_max_documents", "Maximum number of documents that arrived while a row waited for its step.",
		func(s metricSnapshot) float64 { return float64(s.MaxWait) }),
	gauge("next_step_rows_needed", "Rows that the next step needs, including those left after it.",
		func(s metricSnapshot) float64 { return float64(s.RowsNeeded) }),
	gauge("next_step_rows_ready", "Available rows of those that the next step needs.",
		func(s metricSnapshot) float64 {
			return float64(s.RowsReady)
		}),
	gauge("schedule_phase", "Phase of the next step (steps.schedule); 0 is the size that steps configures.",
		func(s metricSnapshot) float64 { return float64(s.schedule.Current()) }),
	gauge("schedule_phases", "Phases of steps, including phase 0.",
		func(s metricSnapshot) float64 { return float64(len(s.schedule.Phases)) }),
	gauge("schedule_change_steps",
		"Steps until the size of steps changes; 0 if none follows, or after a number of tokens.",
		func(s metricSnapshot) float64 { return float64(s.change.Steps) }),
	gauge("schedule_change_tokens",
		"Tokens in steps until the size of steps changes; 0 if none follows, or after a number of steps.",
		func(s metricSnapshot) float64 { return float64(s.change.Tokens) }),
	gauge("oldest_step", "Oldest readable step.", func(s metricSnapshot) float64 { return float64(s.Oldest) }),
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
	gauge("replaying", "1 while the daemon replays the plan after a restart.", func(s metricSnapshot) float64 {
		return boolValue(s.Replaying)
	}),
	gauge("ended", "1 after the last step.", func(s metricSnapshot) float64 { return boolValue(s.Ended) }),
	gauge("readers", "Readers connected.", func(s metricSnapshot) float64 { return float64(len(s.Readers)) }),
	gauge("cache_bytes", "Tokens cached for row assembly.", func(s metricSnapshot) float64 {
		return float64(s.CacheBytes)
	}),
	counter("cache_hits_total", "Documents of steps found in the cache, including those read ahead.",
		func(s metricSnapshot) float64 { return float64(s.CacheHits) }),
	counter("cache_misses_total",
		"Documents of steps missing in the cache, and read from the token store, the leader or the stream.",
		func(s metricSnapshot) float64 { return float64(s.CacheMisses) }),
	counter("exchange_sent_total", "Documents sent to other daemons of the run, which need not read and tokenize them.",
		func(s metricSnapshot) float64 { return float64(s.Exchange.Sent) }),
	counter("exchange_received_total", "Documents received from the leader's memory instead of the stream.",
		func(s metricSnapshot) float64 { return float64(s.Exchange.Received) }),
	counter("exchange_failed_total", "Requests for documents without a valid answer of the leader in time.",
		func(s metricSnapshot) float64 { return float64(s.Exchange.Failed) }),
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
	newBucketMetric(prometheus.CounterValue, "bucket_steps_total",
		"Steps by the length of their rows, since the last change of the row lengths.",
		func(q planner.QueueStat) float64 { return float64(q.Steps) }),
	newBucketMetric(prometheus.GaugeValue, "bucket_step_rows", "Rows of the next step, if it is of the bucket.",
		func(q planner.QueueStat) float64 { return float64(q.StepRows) }),
	newBucketMetric(prometheus.GaugeValue, "bucket_queue_rows", "Rows of the bucket buffered for a step.",
		func(q planner.QueueStat) float64 { return float64(q.Rows) }),
	newBucketMetric(prometheus.GaugeValue, "bucket_queue_tokens", "Tokens of the bucket's rows buffered for a step.",
		func(q planner.QueueStat) float64 { return float64(q.Tokens) }),
	newBucketMetric(prometheus.GaugeValue, "bucket_queue_wait_documents",
		"Documents that arrived while the oldest row of the bucket waited for its step.",
		func(q planner.QueueStat) float64 { return float64(q.Wait) }),
}

// spliceRowsDesc counts the rows of splice by the way they ended, under splice's own names.
var spliceRowsDesc = prometheus.NewDesc("loaderd_splice_rows_total", "Rows packed by splice, by the end of the row.",
	[]string{"end"}, nil)

// noHintsDesc counts documents that splice relates to no other document.
var noHintsDesc = prometheus.NewDesc("loaderd_splice_unhinted_documents_total",
	"Documents without the data that splice's retriever compares: a path, an embedding.", nil, nil)

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
	s := metricSnapshot{Stats: m.run.Stats(), letters: m.docs.DeadLetters(), schedule: m.run.Info().Schedule}
	s.change, _ = s.schedule.NextChange()
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
