package arrowout

import (
	"encoding/hex"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"loaderd/loader/document"
)

// ageHistogram is the histogram of document ages: the time from storage in the stream until sending. A batch has
// hundreds of documents, and the library's histogram needs ten times as long to add them, a measurable part of sending
// the batch.
type ageHistogram struct {
	desc *prometheus.Desc

	mu        sync.Mutex
	counts    [len(ageBounds) + 1]uint64 // by the first bound that is at least the age
	sum       time.Duration
	exemplars map[int]prometheus.Exemplar // the last sampled document of each bucket
}

// ageBounds are the upper bounds of the histogram, chosen for the delays that matter to producers.
var ageBounds = [...]time.Duration{100 * time.Millisecond, 500 * time.Millisecond, time.Second, 2500 * time.Millisecond,
	5 * time.Second, 10 * time.Second, 30 * time.Second, time.Minute,
	2 * time.Minute, 5 * time.Minute, 10 * time.Minute, 30 * time.Minute, time.Hour, 6 * time.Hour, 24 * time.Hour,
	7 * 24 * time.Hour}

func newAgeHistogram() *ageHistogram {
	return &ageHistogram{desc: prometheus.NewDesc("loaderd_document_seconds",
		"Time from when its stream stored a document until "+
			"its first tokens were sent to a rank. A document counts once for each job that reads it and each time that it is "+
			"read.", nil, nil)}
}

// observe counts documents that are sent at now. stored has the time at which each was stored, in nanoseconds since
// 1970.
func (a *ageHistogram) observe(now time.Time, stored []int64) {
	if len(stored) == 0 {
		return
	}
	until, i := now.UnixNano(), 0
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, s := range stored {
		age := time.Duration(max(until-s, 0))       // the clock of the NATS server may be ahead
		for ; i > 0 && age <= ageBounds[i-1]; i-- { // neighbours have similar ages
		}
		for ; i < len(ageBounds) && age > ageBounds[i]; i++ {
		}
		a.counts[i]++
		a.sum += age
	}
}

// setExemplar makes a sampled document, which add has counted, the exemplar of its bucket.
func (a *ageHistogram) setExemplar(now time.Time, d document.TracedDocument) {
	if d.Stored == 0 {
		return
	}
	age := max(now.Sub(time.Unix(0, d.Stored)), 0)
	i := slices.IndexFunc(ageBounds[:], func(bound time.Duration) bool { return age <= bound })
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.exemplars == nil {
		a.exemplars = map[int]prometheus.Exemplar{}
	}
	a.exemplars[i] = prometheus.Exemplar{Value: age.Seconds(), Labels: exemplarLabels(d), Timestamp: now}
}

// exemplarLabels returns the labels that link an exemplar to its trace.
func exemplarLabels(d document.TracedDocument) prometheus.Labels {
	return prometheus.Labels{"trace_id": hex.EncodeToString(d.ID[:])}
}

// Describe implements prometheus.Collector.
func (a *ageHistogram) Describe(out chan<- *prometheus.Desc) { out <- a.desc }

// Collect implements prometheus.Collector.
func (a *ageHistogram) Collect(out chan<- prometheus.Metric) {
	a.mu.Lock()
	defer a.mu.Unlock()
	below, buckets := uint64(0), make(map[float64]uint64, len(ageBounds))
	for i, bound := range ageBounds {
		below += a.counts[i]
		buckets[bound.Seconds()] = below
	}
	m := prometheus.MustNewConstHistogram(a.desc, below+a.counts[len(ageBounds)], a.sum.Seconds(), buckets)
	if len(a.exemplars) > 0 {
		m = prometheus.MustNewMetricWithExemplars(m, slices.Collect(maps.Values(a.exemplars))...)
	}
	out <- m
}
