package planrecord

import (
	"encoding/binary"
	"fmt"
	"slices"

	"loaderd/loader/internal/codec"
	"loaderd/loader/mixture"
	"loaderd/loader/runconfig"
)

// Parent is the run that a run was forked from. The new run plans everything that is not in the parent's steps before
// Step.
type Parent struct {
	Run         string `json:"run"`
	ID          string `json:"id"` // of the parent run
	Step        uint64 `json:"step"`
	Fingerprint string `json:"fingerprint"`
	// Sources are the positions in the sources, by source number.
	Sources []ParentSource `json:"sources"`
	// Schedule is the schedule of the steps at the start of the run, if their size changes.
	Schedule *runconfig.Schedule `json:"schedule,omitempty"`

	State   uint64 `json:"state"`   // bytes of the planner's state at the start of the run
	Records uint64 `json:"records"` // number of ForkState records that hold this state
}

// ParentSource is the position of a run's parent in a source.
type ParentSource struct {
	Epoch uint64 `json:"epoch,omitempty"` // current epoch, from 0
	Taken uint64 `json:"taken"`           // documents taken of the epoch
	// Sealed reports whether the parent had recorded the end of the source, which is Last.
	Sealed bool   `json:"sealed,omitempty"`
	Last   uint64 `json:"last,omitempty"`
	// Removed reports whether the source was removed, or is not in the run's configuration. None of its documents
	// follows.
	Removed bool   `json:"removed,omitempty"`
	From    uint64 `json:"from"` // sequence of the first document that the run needs
	// Config configures the source if the configuration of the run does not.
	Config *mixture.Source `json:"config,omitempty"`
}

// Position returns the position in the source.
func (s ParentSource) Position() mixture.SourcePosition {
	return mixture.SourcePosition{Epoch: s.Epoch, Taken: s.Taken}
}

// ForkState is a part of the planner's state at the start of a fork. All parts follow the header immediately.
type ForkState struct {
	Part  uint64 // from 0
	State []byte
}

// Kind returns the kind of its records.
func (ForkState) Kind() byte { return kindForkState }

func (e ForkState) appendBody(b []byte) []byte {
	return append(binary.AppendUvarint(b, e.Part), e.State...)
}

func (e ForkState) String() string { return fmt.Sprintf("part %d of what the run inherited", e.Part) }

func readForkState(r *codec.Cursor) Entry {
	e := ForkState{Part: r.Uvarint()}
	e.State = r.Bytes(len(r.Buf))
	return e
}

// SplitState returns the header of a fork and the records of its state. No record exceeds limit bytes.
func (h Header) SplitState(limit int) (Header, [][]byte) {
	room := limit - recordOverhead - binary.MaxVarintLen64
	parent, parts := *h.Parent, [][]byte{}
	for part := range slices.Chunk(h.State, room) {
		parts = append(parts, Encode(ForkState{uint64(len(parts)), part}))
	}
	parent.Records = uint64(len(parts))
	h.Parent = &parent
	return h, parts
}

// validate rejects a header whose parts are inconsistent.
func (h Header) validate() error {
	if h.Parent != nil && len(h.Parent.Sources) != len(h.Sources) {
		return fmt.Errorf("%d sources of run %s were read, and the run has %d", len(h.Parent.Sources), h.Parent.Run,
			len(h.Sources))
	}
	if err := h.Config.CheckSchedule(); err != nil {
		return err
	}
	if h.Parent != nil && h.Parent.Schedule != nil {
		if _, err := h.Config.RestoreSchedule([]byte(h.Parent.Schedule.Encode())); err != nil {
			return fmt.Errorf("run %s: %w", h.Parent.Run, err)
		}
	}
	return nil
}
