package leader

import (
	"log/slog"

	"loaderd/loader/planner"
	"loaderd/packonline"
)

// missingHintAdvice is the advice per retriever if no document has the packing hints that it compares. bm25 needs none,
// because it compares terms, which every document has.
var missingHintAdvice = map[string]string{
	"repo": `publish documents with a path (header Loaderd-Path, "path" of a JSON document), or ` +
		`begin a run with packing.splice.retriever: bm25`,
	"dense": `publish documents with an embedding (header Loaderd-Embedding, "embedding" of a JSON document), or ` +
		`begin a run with packing.splice.retriever: bm25`,
}

// hintCheck warns once if no document has packing hints that the retriever can compare. Splice then packs by length
// only.
type hintCheck struct {
	config packonline.Config
	log    *slog.Logger
	done   bool
}

// check checks the packed documents once they fill the packing pool or the run has ended.
func (c *hintCheck) check(a *planner.Applier) {
	if c.done || c.config.SimilarityConfig() == nil {
		return
	}
	_, packed := a.Planner.Counts()
	if packed.Documents < int64(c.config.Pool) && !a.Ended {
		return
	}
	c.done = true
	if silent := a.Planner.Detail()["documents_silent"]; silent > 0 && silent == packed.Documents {
		retriever := c.config.Splice.Retriever
		c.log.Warn("no document has retrieval hints; packing by length only", "retriever", retriever,
			"documents", silent, "do", missingHintAdvice[retriever])
	}
}
