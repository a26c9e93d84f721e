package docstream

import (
	"loaderd/loader/document"
	"loaderd/loader/filter"
	"loaderd/loader/plan"
	"loaderd/packonline/similarity"
	"loaderd/stream/deadletter"
)

// multiDocument builds the document of a message that holds several.
func (l *Log) multiDocument(doc document.Document, documents []decodedDocument,
	about hintInputs) (document.Document, *deadletter.Problem) {
	g := l.newDocumentBuilder(doc, about)
	for i := range documents {
		g.extra.tokenCapacity += len(documents[i].tokens) + sentinelCount + 2
	}
	for i := range documents {
		d := &documents[i]
		m, failed, _ := l.transform.apply(d, nil)
		if failed == nil {
			failed = g.addDocument(d, &m)
		}
		if failed != nil {
			return doc, newProblem(failed.Reason, "document %d: %s", i, failed.Sentence)
		}
	}
	return g.build(), nil
}

// documentIDs returns the ids of a message's documents, by their index. The pieces of a split document have the same
// id.
func documentIDs(d decodedDocument, shown document.View) (ids []string) {
	row := -1
	for _, x := range shown.Parts {
		if x.SplitIndex == 0 {
			row++
		}
		id := shown.Info.ID
		if d.documents != nil {
			id = d.documents[row].id
		}
		ids = append(ids, id)
	}
	return ids
}

// hintInputs holds the inputs of a document's packing hint other than its tokens.
type hintInputs struct {
	hints  *similarity.HintMaker // nil if the packing method compares no documents
	name   string                // subject of the message
	path   string
	vector []int8
}

// hint returns the packing hint of a document with these tokens; nil if the packing method compares no documents.
func (s *hintInputs) hint(ids []int32) *similarity.Hint {
	if s.hints == nil {
		return nil
	}
	return s.hints.Hint(s.name, ids, s.path, s.vector)
}

// documentBuilder assembles the document of a message that holds several.
type documentBuilder struct {
	doc    document.Document
	losses []int32
	hints  hintInputs
	extra  extraBuilder
	// of the document that is added; its pieces share them
	attributes *filter.Attributes
}

func (l *Log) newDocumentBuilder(doc document.Document, about hintInputs) documentBuilder {
	return documentBuilder{doc: doc, hints: about, extra: extraBuilder{schema: l.transform.columns,
		metaWidth: len(l.decoder.meta)}}
}

// addDocument adds one of the message's documents after its transformation.
func (g *documentBuilder) addDocument(d *decodedDocument, m *transformResult) *deadletter.Problem {
	g.attributes = d.attributes()
	if m.pieces == nil {
		return g.addPart(d, m, 0)
	}
	for i := range m.pieces {
		if failed := g.addPart(d, &m.pieces[i], i); failed != nil {
			return failed
		}
	}
	return nil
}

func (g *documentBuilder) addPart(d *decodedDocument, m *transformResult, nth int) *deadletter.Problem {
	doc := &g.doc
	if len(doc.Tokens)+len(m.tokens) > plan.MaxPartTokens {
		return newProblem(tooLarge,
			"the documents up to this one have more than %d tokens with those that are put around them",
			plan.MaxPartTokens)
	}
	x := plan.Part{Skip: m.skip, Length: len(m.tokens), Loss: m.loss, Cut: m.cut, SplitIndex: nth}
	if m.skip == "" {
		x.ID, x.Hint, x.Attributes = hashID(d.id), g.hints.hint(m.tokens), g.attributes
	}
	g.extra.add(len(doc.Docs), len(doc.Tokens), d.meta, m)
	doc.Docs = append(doc.Docs, document.Doc{Start: int32(len(doc.Tokens)), Weight: d.weight})
	doc.Tokens = append(doc.Tokens, m.tokens...)
	doc.Parts = append(doc.Parts, x)
	g.losses = x.Loss.AppendRuns(g.losses, 0, int32(x.Length))
	return nil
}

func (g *documentBuilder) build() document.Document {
	g.doc.Loss, g.doc.Extra = plan.NewLossRuns(g.losses), g.extra.build()
	return g.doc
}

// extraBuilder gathers the column and metadata values of several documents.
type extraBuilder struct {
	schema        []tokenColumn
	tokenCapacity int // maximum tokens of all documents
	metaWidth     int // per document
	columns       [][]byte
	meta          []any
}

// add appends the values of one document, which follows the given numbers of documents and tokens. A column that no
// document has had yet is nil.
func (b *extraBuilder) add(documents, tokens int, meta []any, m *transformResult) {
	for i, kind := range b.schema {
		has := m.columns != nil && m.columns[i] != nil
		if has && b.columns == nil {
			b.columns = make([][]byte, len(b.schema))
		}
		if has && b.columns[i] == nil {
			b.columns[i] = kind.appendFill(make([]byte, 0, b.tokenCapacity*kind.width), tokens)
		}
		switch {
		case has:
			b.columns[i] = kind.appendRuns(b.columns[i], m.columns[i], m.tokenRuns)
		case b.columns != nil && b.columns[i] != nil:
			b.columns[i] = kind.appendFill(b.columns[i], len(m.tokens))
		}
	}
	if meta != nil && b.meta == nil {
		b.meta = make([]any, documents*b.metaWidth)
	}
	switch {
	case meta != nil:
		b.meta = append(b.meta, meta...)
	case b.meta != nil:
		b.meta = append(b.meta, make([]any, b.metaWidth)...)
	}
}

func (b *extraBuilder) build() *document.Extra {
	if b.columns == nil && b.meta == nil {
		return nil
	}
	return &document.Extra{Columns: b.columns, Meta: b.meta}
}
