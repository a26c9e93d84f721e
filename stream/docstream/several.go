package docstream

import (
	"loaderd/loader/document"
	"loaderd/loader/plan"
	"loaderd/packonline/similarity"
	"loaderd/stream/deadletter"
)

// several builds the document of a message that holds several.
func (l *Log) several(doc document.Document, documents []decoded,
	about topic) (document.Document, *deadletter.Problem) {
	g := l.gather(doc, about)
	for i := range documents {
		g.beside.room += len(documents[i].tokens) + sentinels + 2
	}
	for i := range documents {
		d := &documents[i]
		m, failed, _ := l.transform.document(d, nil)
		if failed == nil {
			failed = g.take(d, &m)
		}
		if failed != nil {
			return doc, bad(failed.Reason, "document %d: %s", i, failed.Sentence)
		}
	}
	return g.done(), nil
}

// idsWithin returns the ids of a message's documents, by their index. The pieces of a split document have the same
// id.
func idsWithin(d decoded, shown document.View) (ids []string) {
	row := -1
	for _, x := range shown.Parts {
		if x.Nth == 0 {
			row++
		}
		id := shown.Info.ID
		if d.several != nil {
			id = d.several[row].id
		}
		ids = append(ids, id)
	}
	return ids
}

// topic holds the inputs of a document's packing hint other than its tokens.
type topic struct {
	hints  *similarity.Maker // nil if the packing method compares no documents
	name   string            // subject of the message
	path   string
	vector []int8
}

// hint returns the packing hint of a document with these tokens; nil if the packing method compares no documents.
func (s *topic) hint(ids []int32) *similarity.Hint {
	if s.hints == nil {
		return nil
	}
	return s.hints.Hint(s.name, ids, s.path, s.vector)
}

// gathering assembles the document of a message that holds several.
type gathering struct {
	doc    document.Document
	losses []int32
	about  topic
	beside besideOf
}

func (l *Log) gather(doc document.Document, about topic) gathering {
	return gathering{doc: doc, about: about, beside: besideOf{kinds: l.transform.columns, values: len(l.decoder.meta)}}
}

// take adds one of the message's documents after its transformation.
func (g *gathering) take(d *decoded, m *made) *deadletter.Problem {
	if m.pieces == nil {
		return g.add(d, m, 0)
	}
	for i := range m.pieces {
		if failed := g.add(d, &m.pieces[i], i); failed != nil {
			return failed
		}
	}
	return nil
}

func (g *gathering) add(d *decoded, m *made, nth int) *deadletter.Problem {
	doc := &g.doc
	if len(doc.Tokens)+len(m.tokens) > plan.MaxPartTokens {
		return bad(tooLarge, "the documents up to this one have more than %d tokens with those that are put around them",
			plan.MaxPartTokens)
	}
	x := plan.Part{Skip: m.skip, Length: len(m.tokens), Loss: m.loss, Cut: m.cut, Nth: nth}
	if m.skip == "" {
		x.ID, x.Hint = hashID(d.id), g.about.hint(m.tokens)
	}
	g.beside.add(len(doc.Docs), len(doc.Tokens), d.meta, m)
	doc.Docs = append(doc.Docs, document.Doc{Start: int32(len(doc.Tokens)), Weight: d.weight})
	doc.Tokens = append(doc.Tokens, m.tokens...)
	doc.Parts = append(doc.Parts, x)
	g.losses = x.Loss.Append(g.losses, 0, int32(x.Length))
	return nil
}

func (g *gathering) done() document.Document {
	g.doc.Loss, g.doc.Extra = plan.NewLossRuns(g.losses), g.beside.of()
	return g.doc
}

// besideOf gathers the column and metadata values of several documents.
type besideOf struct {
	kinds   []tokenColumn
	room    int // maximum tokens of all documents
	values  int // per document
	columns [][]byte
	meta    []any
}

// add appends the values of one document, which follows the given numbers of documents and tokens. A column that no
// document has had yet is nil.
func (b *besideOf) add(documents, tokens int, meta []any, m *made) {
	for i, kind := range b.kinds {
		has := m.columns != nil && m.columns[i] != nil
		if has && b.columns == nil {
			b.columns = make([][]byte, len(b.kinds))
		}
		if has && b.columns[i] == nil {
			b.columns[i] = kind.filled(make([]byte, 0, b.room*kind.width), tokens)
		}
		switch {
		case has:
			b.columns[i] = kind.gather(b.columns[i], m.columns[i], m.spans)
		case b.columns != nil && b.columns[i] != nil:
			b.columns[i] = kind.filled(b.columns[i], len(m.tokens))
		}
	}
	if meta != nil && b.meta == nil {
		b.meta = make([]any, documents*b.values)
	}
	switch {
	case meta != nil:
		b.meta = append(b.meta, meta...)
	case b.meta != nil:
		b.meta = append(b.meta, make([]any, b.values)...)
	}
}

func (b *besideOf) of() *document.Extra {
	if b.columns == nil && b.meta == nil {
		return nil
	}
	return &document.Extra{Columns: b.columns, Meta: b.meta}
}
