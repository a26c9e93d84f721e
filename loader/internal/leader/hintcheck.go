package leader

// silentAdvice says what to do when no document brings what the retriever compares. bm25 needs none: it compares terms, which all have.
var silentAdvice = map[string]string{
	"repo":  `publish documents with a path (header Loaderd-Path, "path" of a JSON document), or begin a run with packing.splice.retriever: bm25`,
	"dense": `publish documents with an embedding (header Loaderd-Embedding, "embedding" of a JSON document), or begin a run with packing.splice.retriever: bm25`,
}

// checkSilent looks once, when a pool of documents has come or the run has ended, and warns if no document brings what the retriever
// compares: then splice packs by length alone.
func (l *loop) checkSilent() {
	c := l.leader.Config.Packing
	if l.heard || c.Related() == nil {
		return
	}
	_, packed := l.leader.applier.Planner.Counts()
	if packed.Documents < int64(c.Pool) && !l.leader.applier.Ended {
		return
	}
	l.heard = true
	if silent := l.leader.applier.Planner.Detail()["documents_silent"]; silent > 0 && silent == packed.Documents {
		l.leader.Log.Warn("no document so far says what it is about: rows are packed by length alone", "retriever", c.Splice.Retriever, "documents", silent,
			"do", silentAdvice[c.Splice.Retriever])
	}
}
