package plan

import (
	"loaderd/loader/mixture"
)

// SourceBegin says which stream a source is, and where a run begins to read it.
type SourceBegin struct {
	Name   string `json:"name"`
	Stream Stream `json:"stream"`
	Start  uint64 `json:"start"` // sequence of the run's first document of it
	// Sealed says that it had ended when the run began; then Last is its last document, Start-1 when there is none.
	Sealed bool   `json:"sealed,omitempty"`
	Last   uint64 `json:"last,omitempty"`
}

// SourceInfo is a source of a run, and how it is read.
type SourceInfo struct {
	SourceBegin
	Config mixture.Source `json:"config"`
	// From is the first document that the run needs, where a parent had read those before; else 0.
	From uint64 `json:"from,omitempty"`
	// Behind is the arrival behind which the source was added; 0 for one that the run began with.
	Behind uint64 `json:"behind,omitempty"`
}

// First returns the sequence of the first document that the run needs.
func (s *SourceInfo) First() uint64 { return max(s.Start, s.From) }

// Drawn reports whether the first epoch of the source is read in a drawn order.
func (s *SourceInfo) Drawn() bool { return s.Sealed && s.Config.Block > 0 }

// Floor returns the sequence of the first document that is still taken when the source is read as far as a place. A
// source that is read in a drawn order, or again, is needed whole until the run ends.
func (s *SourceInfo) Floor(p mixture.Place) uint64 {
	if s.Config.Epochs != 1 || s.Drawn() {
		return s.Start
	}
	return max(s.Start+p.Taken, s.From)
}
