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
	"loaderd/stream/tokenstore"
)

// Encoder turns text into token ids. One goroutine uses it at a time. Its result depends on its arguments alone.
type Encoder interface {
	// EncodePart appends the ids of a part of a text, which is encoded separately. first and last report whether the
	// text begins and ends with it.
	EncodePart(dst []int32, text []byte, first, last bool) []int32
}

// Tokenization configures how documents become tokens. It is part of what determines the plan.
type Tokenization struct {
	NewEncoder  func() Encoder // nil: only tokenized documents are accepted
	Encoders    *EncoderPool   // shared by several logs; nil: the log creates a pool with NewEncoder
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
	// Store caches documents on the local disk; nil: they are not cached.
	Store *tokenstore.Store
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

// WithSharedEncoders returns t with encoders that all logs opened with it share. workers is as in stream.Config.
func (t Tokenization) WithSharedEncoders(workers int) Tokenization {
	t.Encoders = NewEncoderPool(t.NewEncoder, workerCount(workers)+1)
	return t
}

// workerCount returns the number of workers, by default one per core.
func workerCount(configured int) int {
	if configured > 0 {
		return configured
	}
	return runtime.GOMAXPROCS(0)
}

// EncoderPool is a pool of encoders. The logs of several sources may share it, because each encoder takes megabytes. If
// all existing encoders are in use, it creates one, up to a limit. At the limit a caller waits until an encoder is
// returned.
type EncoderPool struct {
	create    func() Encoder
	free      chan Encoder
	creatable chan struct{} // holds a value per encoder that may still be created
}

// NewEncoderPool returns a pool of at most limit encoders. create makes one; nil: only tokenized documents are
// accepted.
func NewEncoderPool(create func() Encoder, limit int) *EncoderPool {
	p := &EncoderPool{create: create, free: make(chan Encoder, limit), creatable: make(chan struct{}, limit)}
	for range limit {
		p.creatable <- struct{}{}
	}
	return p
}

func (p *EncoderPool) acquire() Encoder {
	select {
	case e := <-p.free:
		return e
	default:
	}
	select {
	case e := <-p.free:
		return e
	case <-p.creatable:
	}
	made := false
	defer func() {
		if !made { // create panicked
			p.creatable <- struct{}{}
		}
	}()
	e := p.create()
	made = true
	return e
}

// release returns an encoder to the pool. nil replaces one whose state cannot be trusted.
func (p *EncoderPool) release(e Encoder) {
	if e == nil {
		p.creatable <- struct{}{}
		return
	}
	p.free <- e
}

// workspacePool is a pool of the other state that making documents of one stream needs. It keeps at most as many as
// were ever in use at a time, and at most its capacity.
type workspacePool struct {
	shared *EncoderPool
	hints  *similarity.Config
	free   chan *workspace
}

func newWorkspacePool(t Tokenization, keep int) *workspacePool {
	shared := t.Encoders
	if shared == nil {
		shared = NewEncoderPool(t.NewEncoder, keep)
	}
	return &workspacePool{shared: shared, hints: t.Hints, free: make(chan *workspace, keep)}
}

func (p *workspacePool) get() *workspace {
	select {
	case e := <-p.free:
		return e
	default:
		e := &workspace{shared: p.shared}
		if p.hints != nil {
			e.hints = similarity.NewHintMaker(*p.hints)
		}
		return e
	}
}

func (p *workspacePool) put(e *workspace) {
	select {
	case p.free <- e:
	default:
	}
}

// workspace encodes with one of the shared Encoders and recovers from its panics.
type workspace struct {
	shared   *EncoderPool
	scratch  []int32
	headers  headerParser
	replaced int64                 // bytes of the last document that are not UTF-8
	hints    *similarity.HintMaker // nil when the packing method compares no documents
}

// maxScratch bounds the scratch space that is kept between documents, in ids.
const maxScratch = 1 << 20

// encode returns the ids of a text, in scratch space that is valid until the next text.
func (e *workspace) encode(text []byte) (ids []int32, failed *deadletter.Problem, stack []byte) {
	if e.shared.create == nil {
		return nil, textRefusedProblem(), nil
	}
	if failed, stack = e.withEncoder(func(inner Encoder) {
		ids = inner.EncodePart(e.scratch[:0], text, true, true)
	}); failed != nil {
		return nil, failed, stack
	}
	e.scratch = keepScratch(ids)
	return ids, nil, nil
}

// encodeParts is encode for a text in parts, each of which is tokenized separately. ends holds where the ids of each
// part end.
func (e *workspace) encodeParts(parts []part,
	limit int) (ids []int32, ends []int, failed *deadletter.Problem, stack []byte) {
	if e.shared.create == nil {
		return nil, nil, textRefusedProblem(), nil
	}
	ids, ends = e.scratch[:0], make([]int, len(parts))
	first := slices.IndexFunc(parts, part.hasText)
	for i, p := range parts {
		if p.hasText() {
			last := !slices.ContainsFunc(parts[i+1:], part.hasText)
			if failed, stack = e.withEncoder(func(inner Encoder) {
				ids = inner.EncodePart(ids, p.text, i == first, last)
			}); failed != nil {
				return nil, nil, failed, stack
			}
		}
		if ends[i] = len(ids); len(ids) > limit {
			return nil, nil, newProblem(tooLarge, "%d tokens or more, a document may have %d", len(ids), limit), nil
		}
	}
	e.scratch = keepScratch(ids)
	return ids, ends, nil, nil
}

func textRefusedProblem() *deadletter.Problem {
	return newProblem(noTokenizer, "the document is text and the run takes tokenized documents only")
}

// keepScratch returns the scratch space of ids for the next document, nil if it is too large.
func keepScratch(ids []int32) []int32 {
	if cap(ids) > maxScratch {
		return nil
	}
	return ids[:0]
}

// withEncoder calls f with an encoder. A panic becomes a problem, and its encoder is no longer used.
func (e *workspace) withEncoder(f func(Encoder)) (failed *deadletter.Problem, stack []byte) {
	var inner Encoder
	taken := false
	defer func() {
		r := recover()
		if r != nil {
			e.scratch, inner = nil, nil // their state cannot be trusted after a panic
			failed, stack = newProblem(encoderPanic, "the tokenizer failed on the text: %s", quoteValue(fmt.Sprint(r))),
				debug.Stack()
		}
		if taken {
			e.shared.release(inner)
		}
	}()
	inner = e.shared.acquire()
	taken = true
	f(inner)
	return nil, nil
}

// makeDocument turns a message into the document that a Source delivers. Its result depends on the message and the
// run's configuration alone.
func (l *Log) makeDocument(m *message, e *workspace) (document.Document, *deadletter.Problem) {
	doc := document.Document{Sequence: m.sequence}
	e.replaced = 0
	if m.malformed {
		return skippedDocument(doc, plan.SkipUndecodable), newProblem(badHeaders, "the header block is malformed")
	}
	decoder := l.decoder
	if l.transform.narrow {
		decoder.scratch = e.scratch
	}
	d, failed := decoder.decode(m.header, m.data)
	e.replaced = int64(d.replaced)
	if failed != nil {
		return skippedDocument(doc, plan.SkipUndecodable), failed
	}
	if l.transform.narrow && d.tokens != nil {
		e.scratch = keepScratch(d.tokens)
	}
	about := hintInputs{e.hints, m.subject, d.path, d.vector}
	if d.documents != nil {
		if len(d.documents) == 0 {
			return skippedDocument(doc, plan.SkipEmpty), nil
		}
		doc, failed = l.multiDocument(doc, d.documents, about)
		if failed != nil {
			return skippedDocument(doc, plan.SkipUndecodable), failed
		}
		l.finishDocument(&doc, m)
		return doc, nil
	}
	made, failed, stack := l.transform.apply(&d, e)
	if stack != nil {
		l.log.Error("tokenizer panicked", "stream", l.name, "sequence", m.sequence, "subject", m.subject, "bytes",
			len(d.text),
			"panic", failed.Sentence, "stack", string(stack))
	}
	switch {
	case failed != nil:
		return skippedDocument(doc, plan.SkipUndecodable), failed
	case made.skip != "":
		return skippedDocument(doc, made.skip), nil
	case made.pieces != nil:
		g := l.newDocumentBuilder(doc, about)
		if failed = g.addDocument(&d, &made); failed != nil {
			return skippedDocument(doc, plan.SkipUndecodable), failed
		}
		doc = g.build()
	default:
		doc.Tokens, doc.Loss, doc.Cut = made.tokens, made.loss, made.cut
		doc.Weight, doc.ID, doc.Hint = d.weight, hashID(d.id), about.hint(made.tokens)
		doc.Attributes = d.attributes()
		if d.meta != nil {
			doc.Extra = &document.Extra{Meta: d.meta}
		}
	}
	l.finishDocument(&doc, m)
	return doc, nil
}

// finishDocument completes a document that is used. It narrows the tokens if all of a run's ids are narrow, and sets
// when the message was stored and its trace if it is sampled. A message of several documents has one trace.
func (l *Log) finishDocument(doc *document.Document, m *message) {
	if l.transform.narrow {
		doc.Content = doc.CloneNarrow()
	}
	doc.Stored = m.time.UnixNano()
	if l.tracer != nil {
		doc.Trace = l.tracer.Sample(newHeaderFields(m.header).get(stream.HeaderTrace), l.created, m.sequence)
	}
}

// skippedDocument returns a document that is not used. It has no id, so a later, valid document of the same id is not
// its duplicate.
func skippedDocument(doc document.Document, why plan.Skip) document.Document {
	return document.Document{Sequence: doc.Sequence, Skip: why}
}
