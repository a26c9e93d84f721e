package doclog

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"time"

	"loaderd/loader"
	"loaderd/loader/plan"
	"loaderd/packonline/related"
	"loaderd/stream"
	"loaderd/stream/deadletter"
)

// Encoder turns text into token ids, appended to dst. One goroutine uses it at a time. Its result depends on the text alone.
type Encoder interface {
	Encode(dst []int32, text []byte) []int32
}

// Tokenizing says how documents become tokens. It is part of what shapes the plan.
type Tokenizing struct {
	NewEncoder  func() Encoder // nil: only already tokenized documents are taken
	Encoders    *Encoders      // those of several logs; nil: a log has its own, made by NewEncoder
	Fingerprint string         // of the tokenizer; already tokenized documents must carry it
	VocabSize   int            // ids are 0 ... VocabSize-1
	End         int32          // id appended to every document, -1 for none
	// Text appends what a token stands for, nothing for an id without a token; nil where no tokenizer is known. No document depends on it.
	Text func(dst []byte, id int32) []byte
	// Hints says how documents are compared with one another, where the packing method does that; else nil.
	Hints *related.Config
	// Tracer samples documents; nil: none is traced.
	Tracer Tracer
}

// Tracer samples documents, and is told of those that were fetched. It must not block.
type Tracer interface {
	// Sample returns the trace of a document by what its header traceparent says, else by its place in its stream; nil for one that is not sampled. It
	// answers the same whoever asks, and again.
	Sample(traceparent string, created time.Time, sequence uint64) *loader.Trace
	// Fetched: the stream took a document at stored; it was tokenized between fetched and done.
	Fetched(t *loader.Trace, stream string, sequence uint64, tokens int, stored, fetched, done time.Time)
}

// Shared lets the logs that are opened with t share encoders. workers is as in stream.Config.
func (t Tokenizing) Shared(workers int) Tokenizing {
	t.Encoders = NewEncoders(t.NewEncoder, workersOf(workers)+1)
	return t
}

// workersOf returns how many work: one a core where nothing is said.
func workersOf(configured int) int {
	if configured > 0 {
		return configured
	}
	return runtime.GOMAXPROCS(0)
}

// Encoders are encoders that are shared, by the logs of several sources too: each takes megabytes. One is made when all that there are are in use, up to a limit;
// then whoever wants one waits for a document to be done.
type Encoders struct {
	create func() Encoder
	free   chan Encoder
	unmade chan struct{} // has one for each that may still be made
}

// NewEncoders returns a pool of so many encoders at most. create makes one; nil: only already tokenized documents are taken.
func NewEncoders(create func() Encoder, limit int) *Encoders {
	p := &Encoders{create: create, free: make(chan Encoder, limit), unmade: make(chan struct{}, limit)}
	for range limit {
		p.unmade <- struct{}{}
	}
	return p
}

func (p *Encoders) take() Encoder {
	select {
	case e := <-p.free:
		return e
	default:
	}
	select {
	case e := <-p.free:
		return e
	case <-p.unmade:
	}
	made := false
	defer func() {
		if !made { // it has panicked
			p.unmade <- struct{}{}
		}
	}()
	e := p.create()
	made = true
	return e
}

// give returns an encoder; nil for one whose state cannot be trusted.
func (p *Encoders) give(e Encoder) {
	if e == nil {
		p.unmade <- struct{}{}
		return
	}
	p.free <- e
}

// encoders hands out the rest of what is needed to make documents of one stream: at most as many are kept as were ever in use at a time, and no
// more than its capacity.
type encoders struct {
	shared *Encoders
	hints  *related.Config
	free   chan *encoder
}

func newEncoders(t Tokenizing, keep int) *encoders {
	shared := t.Encoders
	if shared == nil {
		shared = NewEncoders(t.NewEncoder, keep)
	}
	return &encoders{shared: shared, hints: t.Hints, free: make(chan *encoder, keep)}
}

func (p *encoders) get() *encoder {
	select {
	case e := <-p.free:
		return e
	default:
		e := &encoder{shared: p.shared}
		if p.hints != nil {
			e.hints = related.NewMaker(*p.hints)
		}
		return e
	}
}

func (p *encoders) put(e *encoder) {
	select {
	case p.free <- e:
	default:
	}
}

// encoder encodes with one of the shared Encoders, and survives its panics.
type encoder struct {
	shared  *Encoders
	scratch []int32
	hints   *related.Maker // nil when the packing method compares no documents
}

// maxScratch bounds the scratch space that is kept between documents, in ids.
const maxScratch = 1 << 20

// encode returns the ids of text in a slice of exactly their number, end included. limit bounds that number.
func (e *encoder) encode(text []byte, end int32, limit int) (tokens []int32, failed *deadletter.Problem, stack []byte) {
	if e.shared.create == nil {
		return nil, bad(noTokenizer, "the document is text and the run takes tokenized documents only"), nil
	}
	var ids []int32
	if failed, stack = e.run(func(inner Encoder) { ids = inner.Encode(e.scratch[:0], text) }); failed != nil {
		return nil, failed, stack
	}
	if cap(ids) <= maxScratch {
		e.scratch = ids[:0]
	} else {
		e.scratch = nil
	}
	if len(ids) == 0 {
		return nil, nil, nil
	}
	n := len(ids)
	if end >= 0 {
		n++
	}
	if n > limit {
		return nil, bad(tooLarge, "%d tokens, a document may have %d", n, limit), nil
	}
	tokens = make([]int32, n)
	if copy(tokens, ids) < n {
		tokens[n-1] = end
	}
	return tokens, nil, nil
}

// run lends an encoder to f. What panics is told, and its encoder is not used any more.
func (e *encoder) run(f func(Encoder)) (failed *deadletter.Problem, stack []byte) {
	var inner Encoder
	taken := false
	defer func() {
		r := recover()
		if r != nil {
			e.scratch, inner = nil, nil // their state cannot be trusted after a panic
			failed, stack = bad(encoderPanic, "the tokenizer failed on the text: %s", quoted(fmt.Sprint(r))), debug.Stack()
		}
		if taken {
			e.shared.give(inner)
		}
	}()
	inner = e.shared.take()
	taken = true
	f(inner)
	return nil, nil
}

// document turns a message into the document that a Source delivers. Its result depends on the message alone.
func (l *Log) document(m *message, e *encoder) (loader.Document, *deadletter.Problem) {
	doc := loader.Document{Sequence: m.sequence}
	if m.garbled {
		return skipped(doc, plan.SkipUndecodable), bad(badHeaders, "the header block is malformed")
	}
	d, failed := l.decoder.decode(m.header, m.data)
	if failed != nil {
		return skipped(doc, plan.SkipUndecodable), failed
	}
	if d.tokens != nil {
		doc.Tokens = ended(d.tokens, l.end)
		if len(doc.Tokens) > l.decoder.limit {
			return skipped(doc, plan.SkipUndecodable), bad(tooLarge, "%d tokens, a document may have %d", len(doc.Tokens), l.decoder.limit)
		}
	} else if len(d.text) > 0 {
		var stack []byte
		doc.Tokens, failed, stack = e.encode(d.text, l.end, l.decoder.limit)
		if stack != nil {
			l.log.Error("tokenizer panicked", "stream", l.name, "sequence", m.sequence, "subject", m.subject, "bytes", len(d.text),
				"panic", failed.Sentence, "stack", string(stack))
		}
		if failed != nil {
			return skipped(doc, plan.SkipUndecodable), failed
		}
	}
	if len(doc.Tokens) == 0 {
		return skipped(doc, plan.SkipEmpty), nil
	}
	doc.ID, doc.Stored = hashID(d.id), m.time.UnixNano()
	if l.tracer != nil {
		doc.Trace = l.tracer.Sample(field(m.header, stream.HeaderTrace), l.created, m.sequence)
	}
	if e.hints != nil {
		doc.Hint = e.hints.Hint(m.subject, doc.Tokens, d.path, d.vector)
	}
	return doc, nil
}

// skipped returns a document that is not used. It has no id, so that a later, good document of the same id is not its duplicate.
func skipped(doc loader.Document, why plan.Skip) loader.Document {
	return loader.Document{Sequence: doc.Sequence, Skip: why}
}

// ended returns already tokenized ids with the end token behind them, once. Ids that are nothing but the end are an empty document,
// as the empty text is.
func ended(ids []int32, end int32) []int32 {
	switch n := len(ids); {
	case end < 0 || n == 0:
		return ids
	case ids[n-1] != end:
		return append(ids, end)
	case n == 1:
		return nil
	default:
		return ids
	}
}
