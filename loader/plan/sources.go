package plan

import (
	"loaderd/loader/mixture"
)

// SourceBegin identifies the stream of a source, and where a run starts to read it.
type SourceBegin struct {
	Name   string `json:"name"`
	Stream Stream `json:"stream"`
	Start  uint64 `json:"start"` // sequence of the run's first document of the source
	// Sealed reports whether the source was sealed when the run started. Then Last is its last document, or Start-1 if
	// it has none.
	Sealed bool   `json:"sealed,omitempty"`
	Last   uint64 `json:"last,omitempty"`
}

// SourceInfo is a source of a run with its configuration.
type SourceInfo struct {
	SourceBegin
	Config mixture.Source `json:"config"`
	// From is the first document that the run needs, if a parent has read earlier ones; else 0.
	From uint64 `json:"from,omitempty"`
	// AddedAfter is the arrival after which the source was added; 0 for an initial source.
	AddedAfter uint64 `json:"behind,omitempty"`
}

// First returns the sequence of the first document that the run needs.
func (s *SourceInfo) First() uint64 { return max(s.Start, s.From) }

// IsShuffled reports whether the first epoch of the source is read in a drawn order.
func (s *SourceInfo) IsShuffled() bool { return s.Sealed && s.Config.Block > 0 }

// LowWatermark returns the low watermark of the source at a position: the first sequence that may still be taken. A
// source with a drawn order or several epochs is needed completely until the run ends.
func (s *SourceInfo) LowWatermark(p mixture.SourcePosition) uint64 {
	if s.Config.Epochs != 1 || s.IsShuffled() {
		return s.Start
	}
	return max(s.Start+p.Taken, s.From)
}
