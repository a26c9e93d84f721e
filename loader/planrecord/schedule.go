package planrecord

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"

	"loaderd/loader/internal/codec"
	"loaderd/loader/runconfig"
)

// Schedule replaces the phases of the run's steps that have not begun. It takes effect after an arrival.
type Schedule struct {
	Arrival   uint64
	Requester string // as in Flush
	Phases    []runconfig.Phase
}

// Kind implements Entry.
func (Schedule) Kind() byte { return kindSchedule }

// EffectiveAfter implements Control.
func (c Schedule) EffectiveAfter() uint64 { return c.Arrival }

// PlaceAfter implements Control.
func (c Schedule) PlaceAfter(arrival uint64) Control {
	c.Arrival = arrival
	return c
}

func (c Schedule) appendBody(b []byte) []byte {
	b = codec.AppendString(binary.AppendUvarint(b, c.Arrival), c.Requester)
	return codec.AppendString(b, string(c.encodePhases()))
}

func (c Schedule) encodePhases() []byte {
	phases, err := json.Marshal(c.Phases)
	if err != nil {
		panic(fmt.Sprintf("plan: marshal schedule: %v", err)) // only numbers and lists of them
	}
	return phases
}

// Describe returns the phases as JSON, for people.
func (c Schedule) Describe() string { return string(c.encodePhases()) }

func (c Schedule) String() string {
	return fmt.Sprintf("schedule behind arrival %d: %s%s", c.Arrival, c.encodePhases(), requesterSuffix(c.Requester))
}

func readSchedule(r *codec.Cursor) Control {
	c := Schedule{Arrival: r.Uvarint(), Requester: readIdentity(r)}
	body := r.Bytes(int(r.BoundedUvarint(maxMixBytes)))
	if r.Err != nil {
		return c
	}
	if err := json.Unmarshal(body, &c.Phases); err != nil {
		r.Fail(fmt.Errorf("schedule of steps: %w", err))
	}
	if !bytes.Equal(c.encodePhases(), body) {
		r.Fail(errors.New("schedule of steps: it is written in another way than a daemon writes it"))
	}
	return c
}
