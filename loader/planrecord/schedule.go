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
	RequestID string // as in Mix
}

// scheduleBody is the JSON body of a Schedule record with a request id. Without one, it is the phases.
type scheduleBody struct {
	Phases    []runconfig.Phase `json:"phases"`
	RequestID string            `json:"request"`
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
	return codec.AppendString(b, string(c.encodeBody()))
}

func (c Schedule) encodeBody() []byte {
	if c.RequestID == "" {
		return c.encodePhases()
	}
	return encodeScheduleJSON(scheduleBody{c.Phases, c.RequestID})
}

func (c Schedule) encodePhases() []byte { return encodeScheduleJSON(c.Phases) }

func encodeScheduleJSON(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		panic(fmt.Sprintf("plan: marshal schedule: %v", err)) // only numbers, lists of them and an id
	}
	return b
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
	var err error
	if bytes.HasPrefix(body, []byte("{")) {
		var x scheduleBody
		err = json.Unmarshal(body, &x)
		c.Phases, c.RequestID = x.Phases, x.RequestID
	} else {
		err = json.Unmarshal(body, &c.Phases)
	}
	if err = errors.Join(err, ValidateRequestID(c.RequestID)); err != nil {
		r.Fail(fmt.Errorf("schedule of steps: %w", err))
	}
	if !bytes.Equal(c.encodeBody(), body) {
		r.Fail(errors.New("schedule of steps: it is written in another way than a daemon writes it"))
	}
	return c
}
