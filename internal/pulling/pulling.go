// Package pulling fills a document stream with documents of remote objects, ahead of the runs that read it and within
// the stream's bounds. Each document is stored once, in the order of a recorded listing, whichever process stores it.
package pulling

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"loaderd/internal/api"
	"loaderd/internal/corpus"
	"loaderd/internal/objects"
	"loaderd/loader/backend"
	"loaderd/loader/fault"
	"loaderd/stream"
	"loaderd/stream/conn"
	"loaderd/stream/lease"
	"loaderd/stream/messages"
	"loaderd/stream/publish"
	"loaderd/stream/pullrecord"
)

// Options configure what a stream is filled with.
type Options struct {
	Source       string   // of the documents' subject
	DisplayName  string   // name of the source in Status
	From         []string // patterns of objects, in this order
	ReadSettings ReadSettings
	// Fingerprint is the fingerprint of the tokenizer if documents are token ids, else empty.
	Fingerprint string
	// Follow is the interval of listings for new objects after all objects are read; 0 seals the stream instead.
	Follow time.Duration
	// OnComplete is called, possibly more than once, when all objects are read and the stream is sealed after document
	// last.
	OnComplete func(ctx context.Context, last uint64) error
	Log        *slog.Logger
	// BatchBytes bounds the bytes of one append; 0 is 8 MiB.
	BatchBytes int
}

// ReadSettings contains the settings that determine how objects become documents. They are recorded, because they
// determine the position of each document.
type ReadSettings struct {
	Format       corpus.Format `json:"format"`
	TextField    string        `json:"text_column"`
	IDField      string        `json:"id_column"`
	Encoding     string        `json:"encoding"`
	CSVQuoting   string        `json:"csv_quoting"`
	CSVEscape    string        `json:"csv_escape"`
	Tokens       bool          `json:"tokens"`
	SkipInvalid  bool          `json:"skip_invalid"`
	SkipTooLarge bool          `json:"skip_too_large"`
	MaxDocument  int64         `json:"max_document"`
}

// Status is the progress of filling a stream.
type Status api.PullStatus

// Puller fills one stream while it holds the stream's lease.
type Puller struct {
	options     Options
	docs        *stream.Store
	pulls       *pullrecord.Store
	stores      *objects.Stores
	log         *slog.Logger
	maxDocument int64

	mu         sync.Mutex
	status     Status
	isFilling  bool // this process fills the stream
	throughput throughput
}

const (
	defaultBatchBytes = 8 << 20
	// pollInterval is the interval at which a process that does not fill the stream reads its progress.
	pollInterval = 2 * time.Second
	// recordInterval is the interval of writes of the record while documents are stored.
	recordInterval = time.Second
	// minRetryPause and most bound the pauses between attempts.
	minRetryPause, maxRetryPause = time.Second, time.Minute
)

// New returns a Puller for the document stream of a store. It creates the stream if it does not exist.
func New(ctx context.Context, docs *stream.Store, self lease.LeaderInfo, o Options) (*Puller, error) {
	if o.BatchBytes <= 0 {
		o.BatchBytes = defaultBatchBytes
	}
	pulls, err := pullrecord.Open(ctx, docs, self)
	if err != nil {
		return nil, err
	}
	st, err := docs.EnsureDocuments(ctx)
	if err != nil {
		return nil, err
	}
	p := &Puller{options: o, docs: docs, pulls: pulls, log: o.Log.With("stream", docs.Config().Name),
		maxDocument: publish.MaxMessageSize(docs.Conn().MaxPayload(), st.CachedInfo().Config) - headerBytes}
	p.stores = objects.New(objects.Options{Log: p.log, RetryTimeout: 30 * time.Second, OnRetry: p.setTrouble})
	p.status = Status{Source: o.DisplayName, From: redactPatterns(o.From)}
	return p, nil
}

// redactPatterns returns the patterns without secrets.
func redactPatterns(from []string) (out []string) {
	for _, pattern := range from {
		out = append(out, objects.RedactAddress(pattern))
	}
	return out
}

// Status returns the progress of filling the stream, as last seen by this process.
func (p *Puller) Status() Status {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := p.status
	s.Rate, s.At = p.throughput.rate(time.Now()), time.Now().UTC()
	s.Says, _ = s.Sentence()
	return s
}

// Serve fills the stream whenever this process holds the lease, until ctx ends. Errors are reported by Status and
// retried.
func (p *Puller) Serve(ctx context.Context) {
	var watching sync.WaitGroup
	watching.Go(func() { p.watchRecord(ctx) })
	defer watching.Wait()
	for pause := minRetryPause; ctx.Err() == nil; pause = min(2*pause, maxRetryPause) {
		before := p.Status().Documents
		err := p.fillWhileLeading(ctx)
		if ctx.Err() != nil {
			return
		}
		if err != nil && !errors.Is(err, fault.ErrLeadershipLost) {
			p.setTrouble(err.Error())
			p.log.Warn("cannot read a source, trying again", "error", err, "again_in", pause)
		}
		if p.Status().Documents > before || errors.Is(err, fault.ErrLeadershipLost) {
			pause = minRetryPause
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
		}
	}
}

// fillWhileLeading acquires the stream's lease and fills the stream until it loses the lease or an error occurs.
func (p *Puller) fillWhileLeading(ctx context.Context) error {
	elector, err := p.pulls.Elector(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = elector.Close() }() // fails only on a closed connection
	held, err := elector.Acquire(ctx)
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	go func() {
		select {
		case <-held.Lost():
			stop()
		case <-ctx.Done():
		}
	}()
	defer p.clearFilling()
	err = p.fill(ctx, held)
	select {
	case <-held.Lost():
		err = fault.ErrLeadershipLost
	default:
	}
	return errors.Join(err, held.Close())
}

// clearFilling records that this process no longer fills the stream.
func (p *Puller) clearFilling() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.isFilling = false
}

// errStreamGrew reports that the stream has grown without this process, so that its position must be determined again.
var errStreamGrew = errors.New("the stream has grown without this process")

// fill fills the stream.
func (p *Puller) fill(ctx context.Context, held backend.Lease) error {
	st, info, err := p.streamState(ctx)
	if err != nil {
		return err
	}
	record, err := p.pulls.BeginTerm(ctx, stream.Created(info), info.State.LastSeq)
	if err != nil {
		return err
	}
	f := &pullSession{Puller: p, lease: held, stream: st, created: stream.Created(info), record: record}
	if f.record.Trouble != "" {
		f.record.Trouble = ""
	}
	p.mu.Lock()
	p.isFilling = true
	p.mu.Unlock()
	p.setStatus(f.record, "", "")
	err = f.run(ctx)
	if err != nil && ctx.Err() == nil && !errors.Is(err, fault.ErrLeadershipLost) {
		f.record.Trouble = err.Error()
		err = errors.Join(err, f.pulls.Write(ctx, f.record))
	}
	return err
}

// streamState returns the state of the stream as its leader reports it.
func (p *Puller) streamState(ctx context.Context) (st jetstream.Stream, info *jetstream.StreamInfo, err error) {
	err = p.docs.Retry(ctx, "read state of stream "+p.docs.Config().Name, func(ctx context.Context) error {
		if st, err = p.docs.JetStream().Stream(ctx, p.docs.Config().Name); err != nil {
			return err
		}
		if info, err = st.Info(ctx); err == nil && !messages.HasLeader(info) {
			err = conn.AsTransient(errors.New("the stream has no leader"))
		}
		return err
	})
	return st, info, err
}

// watchRecord updates the status of a stream that another process fills, and calls OnComplete at its end.
func (p *Puller) watchRecord(ctx context.Context) {
	told := false
	for tick := time.NewTicker(pollInterval); ; {
		record, err := p.pulls.Read(ctx)
		if err == nil {
			p.mu.Lock()
			mine := p.isFilling
			p.mu.Unlock()
			if !mine && record.Term > 0 {
				p.setStatus(record, record.Trouble, "")
			}
			if record.Complete && !told && p.options.OnComplete != nil {
				if err := p.options.OnComplete(ctx, record.Sequence); err == nil {
					told = true
				} else if ctx.Err() == nil {
					p.log.Warn("cannot record the end of a source, trying again", "error", err)
				}
			}
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			tick.Stop()
			return
		}
	}
}

// setStatus sets the status from a record.
func (p *Puller) setStatus(r pullrecord.Record, trouble, waits string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	from := p.status.From
	p.status = Status{Source: p.status.Source, From: from, Objects: r.Objects, Read: r.Object, Bytes: r.Bytes,
		BytesRead: r.BytesRead, Documents: r.Documents, LeftOut: r.LeftOut,
		Complete: r.Complete, Puller: r.Puller, Trouble: trouble, Waits: waits}
	p.throughput.addPoint(time.Now(), r.BytesRead)
}

// setTrouble sets the problem in the status, and clears it for "".
func (p *Puller) setTrouble(problem string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.status.Trouble = problem
}

// setWaitReason sets the reason why no documents are stored although no problem exists.
func (p *Puller) setWaitReason(why string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.status.Waits = why
}

// setReadProgress updates the status with the bytes read of the current object.
func (p *Puller) setReadProgress(r pullrecord.Record, more int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.status.BytesRead, p.status.Documents, p.status.Read, p.status.LeftOut = r.BytesRead+more, r.Documents,
		r.Object, r.LeftOut
	p.throughput.addPoint(time.Now(), r.BytesRead+more)
}

// throughput measures the bytes per second over the last half minute.
type throughput struct {
	points []point
}

type point struct {
	at    time.Time
	bytes int64
}

const throughputWindow = 30 * time.Second

func (s *throughput) addPoint(now time.Time, bytes int64) {
	if n := len(s.points); n > 0 && (bytes < s.points[n-1].bytes || now.Sub(s.points[n-1].at) < time.Second/4) {
		if bytes < s.points[n-1].bytes {
			s.points = nil
		}
		return
	}
	s.points = append(s.points, point{now, bytes})
	for len(s.points) > 2 && now.Sub(s.points[1].at) > throughputWindow {
		s.points = s.points[1:]
	}
}

func (s *throughput) rate(now time.Time) float64 {
	if len(s.points) < 2 || now.Sub(s.points[len(s.points)-1].at) > throughputWindow {
		return 0
	}
	first, last := s.points[0], s.points[len(s.points)-1]
	return float64(last.bytes-first.bytes) / now.Sub(first.at).Seconds()
}

// encodeSettings encodes settings for the record.
func encodeSettings(h ReadSettings) (json.RawMessage, error) { return json.Marshal(h) }

// decodeSettings decodes recorded settings.
func decodeSettings(raw json.RawMessage) (h ReadSettings, err error) {
	if err = json.Unmarshal(raw, &h); err != nil {
		return h, fmt.Errorf("the recorded settings cannot be read: %w", err)
	}
	return h, nil
}
