package docstream

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"slices"
	"time"

	"loaderd/loader/document"
	"loaderd/loader/plan"
	"loaderd/loader/runconfig"
	"loaderd/packonline/similarity"
	"loaderd/stream"
	"loaderd/stream/deadletter"
)

// Encoder turns text into token ids. One goroutine uses it at a time. Its result depends on its arguments alone.
type Encoder interface {
	// EncodePart appends the ids of a part of a text, which is encoded separately. first and last report whether the
	// text begins and ends with it.
	EncodePart(dst []int32, text []byte, first, last bool) []int32
}

// Tokenizing configures how documents become tokens. It is part of what determines the plan.
type Tokenizing struct {
	NewEncoder  func() Encoder // nil: only tokenized documents are accepted
	Encoders    *Encoders      // shared by several logs; nil: the log creates a pool with NewEncoder
	Fingerprint string         // of the tokenizer; tokenized documents must carry it
	VocabSize   int            // ids are 0 ... VocabSize-1
	End         int32          // id appended to every document, -1 for none
	// Documents configures the transformations of documents, with tokens as ids. Seed keys their draws.
	Documents runconfig.Documents
	Seed      uint64
	// Decode appends the text of a document's first tokens; nil without a tokenizer. Only documents that are cut or
	// split and then filled in the middle depend on it.
	Decode func(dst []byte, ids []int32) []byte
	// Text appends the text of a token, nothing for an id without a token; nil without a tokenizer. No document depends
	// on it.
	Text func(dst []byte, id int32) []byte
	// Hints configures how documents are compared, if the packing method compares them; else nil.
	Hints *similarity.Config
	// Tracer samples documents; nil disables tracing.
	Tracer Tracer
}

// Tracer samples documents and receives the timings of those that were fetched. Its methods must not block.
type Tracer interface {
	// Sample returns the trace of a document, or nil if it is not sampled. It depends on the header traceparent, else on
	// the document's place in its stream. The result is the same for every caller and every call.
	Sample(traceparent string, created time.Time, sequence uint64) *document.Trace
	// Fetched records that the stream stored a document at stored, and that it was tokenized between fetched and done.
	Fetched(t *document.Trace, stream string, sequence uint64, tokens int, stored, fetched, done time.Time)
}

// Shared returns t with encoders that all logs opened with it share. workers is as in stream.Config.
func (t Tokenizing) Shared(workers int) Tokenizing {
	t.Encoders = NewEncoders(t.NewEncoder, workersOf(workers)+1)
	return t
}

// workersOf returns the number of workers, by default one per core.
func workersOf(configured int) int {
	if configured > 0 {
		return configured
	}
	return runtime.GOMAXPROCS(0)
}

// Encoders is a pool of encoders. The logs of several sources may share it, because each encoder takes megabytes. If
// all existing encoders are in use, it creates one, up to a limit. At the limit a caller waits until an encoder is
// returned.
type Encoders struct {
	create func() Encoder
	free   chan Encoder
	unmade chan struct{} // holds a value per encoder that may still be created
}

// NewEncoders returns a pool of at most limit encoders. create makes one; nil: only tokenized documents are accepted.
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
		if !made { // create panicked
			p.unmade <- struct{}{}
		}
	}()
	e := p.create()
	made = true
	return e
}

// give returns an encoder to the pool. nil replaces one whose state cannot be trusted.
func (p *Encoders) give(e Encoder) {
	if e == nil {
		p.unmade <- struct{}{}
		return
	}
	p.free <- e
}

// encoders is a pool of the other state that making documents of one stream needs. It keeps at most as many as were
// ever in use at a time, and at most its capacity.
type encoders struct {
	shared *Encoders
	hints  *similarity.Config
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
			e.hints = similarity.NewMaker(*p.hints)
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

// encoder encodes with one of the shared Encoders and recovers from its panics.
type encoder struct {
	shared   *Encoders
	scratch  []int32
	headers  headers
	replaced int64             // bytes of the last document that are not UTF-8
	hints    *similarity.Maker // nil when the packing method compares no documents
}

// maxScratch bounds the scratch space that is kept between documents, in ids.
const maxScratch = 1 << 20

// encode returns the ids of a text, in scratch space that is valid until the next text.
func (e *encoder) encode(text []byte) (ids []int32, failed *deadletter.Problem, stack []byte) {
	if e.shared.create == nil {
		return nil, textRefused(), nil
	}
	if failed, stack = e.run(func(inner Encoder) {
		ids = inner.EncodePart(e.scratch[:0], text, true, true)
	}); failed != nil {
		return nil, failed, stack
	}
	e.scratch = kept(ids)
	return ids, nil, nil
}

// encodeParts is encode for a text in parts, each of which is tokenized separately. ends holds where the ids of each
// part end.
func (e *encoder) encodeParts(parts []part,
	limit int) (ids []int32, ends []int, failed *deadletter.Problem, stack []byte) {
	if e.shared.create == nil {
		return nil, nil, textRefused(), nil
	}
	ids, ends = e.scratch[:0], make([]int, len(parts))
	first := slices.IndexFunc(parts, part.any)
	for i, p := range parts {
		if p.any() {
			last := !slices.ContainsFunc(parts[i+1:], part.any)
			if failed, stack = e.run(func(inner Encoder) {
				ids = inner.EncodePart(ids, p.text, i == first, last)
			}); failed != nil {
				return nil, nil, failed, stack
			}
		}
		if ends[i] = len(ids); len(ids) > limit {
			return nil, nil, bad(tooLarge, "%d tokens or more, a document may have %d", len(ids), limit), nil
		}
	}
	e.scratch = kept(ids)
	return ids, ends, nil, nil
}

func textRefused() *deadletter.Problem {
	return bad(noTokenizer, "the document is text and the run takes tokenized documents only")
}

// kept returns the scratch space of ids for the next document, nil if it is too large.
func kept(ids []int32) []int32 {
	if cap(ids) > maxScratch {
		return nil
	}
	return ids[:0]
}

// run calls f with an encoder. A panic becomes a problem, and its encoder is no longer used.
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

// document turns a message into the document that a Source delivers. Its result depends on the message and the run's
// configuration alone.
func (l *Log) document(m *message, e *encoder) (document.Document, *deadletter.Problem) {
	doc := document.Document{Sequence: m.sequence}
	e.replaced = 0
	if m.garbled {
		return skipped(doc, plan.SkipUndecodable), bad(badHeaders, "the header block is malformed")
	}
	decoder := l.decoder
	if l.transform.narrow {
		decoder.room = e.scratch
	}
	d, failed := decoder.decode(m.header, m.data)
	e.replaced = int64(d.replaced)
	if failed != nil {
		return skipped(doc, plan.SkipUndecodable), failed
	}
	if l.transform.narrow && d.tokens != nil {
		e.scratch = kept(d.tokens)
	}
	about := topic{e.hints, m.subject, d.path, d.vector}
	if d.several != nil {
		if len(d.several) == 0 {
			return skipped(doc, plan.SkipEmpty), nil
		}
		doc, failed = l.several(doc, d.several, about)
		if failed != nil {
			return skipped(doc, plan.SkipUndecodable), failed
		}
		l.finish(&doc, m)
		return doc, nil
	}
	made, failed, stack := l.transform.document(&d, e)
	if stack != nil {
		l.log.Error("tokenizer panicked", "stream", l.name, "sequence", m.sequence, "subject", m.subject, "bytes",
			len(d.text),
			"panic", failed.Sentence, "stack", string(stack))
	}
	switch {
	case failed != nil:
		return skipped(doc, plan.SkipUndecodable), failed
	case made.skip != "":
		return skipped(doc, made.skip), nil
	case made.pieces != nil:
		g := l.gather(doc, about)
		if failed = g.take(&d, &made); failed != nil {
			return skipped(doc, plan.SkipUndecodable), failed
		}
		doc = g.done()
	default:
		doc.Tokens, doc.Loss, doc.Cut = made.tokens, made.loss, made.cut
		doc.Weight, doc.ID, doc.Hint = d.weight, hashID(d.id), about.hint(made.tokens)
		if d.meta != nil {
			doc.Extra = &document.Extra{Meta: d.meta}
		}
	}
	l.finish(&doc, m)
	return doc, nil
}

// finish completes a document that is used. It narrows the tokens if all of a run's ids are narrow, and sets when the
// message was stored and its trace if it is sampled. A message of several documents has one trace.
func (l *Log) finish(doc *document.Document, m *message) {
	if l.transform.narrow {
		doc.Content = doc.Narrowed()
	}
	doc.Stored = m.time.UnixNano()
	if l.tracer != nil {
		doc.Trace = l.tracer.Sample(fieldsOf(m.header).get(stream.HeaderTrace), l.created, m.sequence)
	}
}

// skipped returns a document that is not used. It has no id, so a later, valid document of the same id is not its
// duplicate.
func skipped(doc document.Document, why plan.Skip) document.Document {
	return document.Document{Sequence: doc.Sequence, Skip: why}
}
