// Package request strictly decodes the JSON of clients: tickets and the bodies of actions.
package request

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"loaderd/arrowout/internal/refusal"
	"loaderd/loader"
	"loaderd/loader/fault"
	"loaderd/loader/mixture"
	"loaderd/loader/planrecord"
	"loaderd/loader/runconfig"
)

// MaxWorld bounds the world size of a request, because a step has at most that many rows.
const MaxWorld = 1 << 20

// MaxNumber bounds step numbers on the wire. A double, and so every JSON library, represents them exactly.
const MaxNumber = 1<<53 - 1

// maxSeconds bounds durations on the wire to a few years.
const maxSeconds = 1 << 28

// DecodeObject decodes one JSON object strictly: only the given keys, each at most once, no null values, and nothing
// after the object. The decoder of each key gets the raw value. Input is never guessed: a typing error in a ticket
// must not train on other rows.
func DecodeObject(b []byte, keys map[string]func(json.RawMessage) error) error {
	return eachKey(b, func(key string, raw func() (json.RawMessage, error)) error {
		decode, known := keys[key]
		if !known {
			return fmt.Errorf("unknown key %s, want one of %s", refusal.Excerpt([]byte(key)), sortedKeys(keys))
		}
		value, err := raw()
		if err != nil {
			return err
		}
		if err := decode(value); err != nil {
			return fmt.Errorf("%q is %s: %w", key, refusal.Excerpt(value), err)
		}
		return nil
	})
}

// eachKey calls f with each key of one JSON object and with a function that reads its value. f calls that function
// once if it accepts the key. A duplicate key or a null value is an error.
func eachKey(b []byte, f func(key string, raw func() (json.RawMessage, error)) error) error {
	dec := json.NewDecoder(bytes.NewReader(b))
	if t, err := dec.Token(); err != nil || t != json.Delim('{') {
		return fmt.Errorf("not a JSON object: %s", refusal.Excerpt(b))
	}
	seen := map[string]bool{}
	for dec.More() {
		t, err := dec.Token()
		if err != nil {
			return fmt.Errorf("malformed JSON after byte %d: %w", dec.InputOffset(), err)
		}
		key, _ := t.(string) // the decoder accepts only strings as keys
		if seen[key] {
			return fmt.Errorf("key %q occurs twice", key)
		}
		seen[key] = true
		err = f(key, func() (raw json.RawMessage, err error) {
			if err := dec.Decode(&raw); err != nil {
				return nil, fmt.Errorf("malformed JSON in the value of %q: %w", key, err)
			}
			if string(raw) == "null" {
				return nil, fmt.Errorf("%q is null: omit the key instead", key)
			}
			return raw, nil
		})
		if err != nil {
			return err
		}
	}
	if _, err := dec.Token(); err != nil {
		return fmt.Errorf("malformed JSON after byte %d: %w", dec.InputOffset(), err)
	}
	if _, err := dec.Token(); err != io.EOF {
		return fmt.Errorf("data after the JSON object, at byte %d", dec.InputOffset())
	}
	return nil
}

// CheckRank returns an error for a rank that a world size does not have.
func CheckRank(rank, world int) error {
	if rank < world {
		return nil
	}
	return refusal.InvalidTicket("rank %d of world %d: want a rank of 0 to %d", rank, world, world-1)
}

func sortedKeys(keys map[string]func(json.RawMessage) error) string {
	var names []string
	for k := range keys {
		names = append(names, k)
	}
	slices.Sort(names)
	return strings.Join(names, ", ")
}

// Text decodes a string.
func Text(into *string) func(json.RawMessage) error {
	return func(raw json.RawMessage) error {
		if json.Unmarshal(raw, into) != nil {
			return fmt.Errorf("want a string")
		}
		return nil
	}
}

// RunName decodes the name of a run. An empty name is an error: it would match any run, and an unset variable causes
// it.
func RunName(into *string) func(json.RawMessage) error {
	return func(raw json.RawMessage) error {
		if json.Unmarshal(raw, into) != nil || *into == "" {
			return errors.New("want the name of a run as a string; omit the key for the served run")
		}
		return nil
	}
}

// RunID decodes the id of a run.
func RunID(into *string) func(json.RawMessage) error {
	return func(raw json.RawMessage) error {
		if json.Unmarshal(raw, into) != nil || !planrecord.IsRunID(*into) {
			return errors.New("want the run_id that info returns, or omit the key")
		}
		return nil
	}
}

// JobName decodes the name of a job.
func JobName(into *string) func(json.RawMessage) error {
	return func(raw json.RawMessage) error {
		if err := Text(into)(raw); err != nil {
			return err
		}
		return planrecord.ValidJob(*into)
	}
}

// SessionID decodes the id of a client's session.
func SessionID(into *string) func(json.RawMessage) error {
	return func(raw json.RawMessage) error {
		if json.Unmarshal(raw, into) != nil || !planrecord.IsRunID(*into) {
			return errors.New("want 32 hexadecimal digits")
		}
		return nil
	}
}

// Seconds decodes a duration in seconds.
func Seconds(into *time.Duration) func(json.RawMessage) error {
	return func(raw json.RawMessage) error {
		var s float64
		if json.Unmarshal(raw, &s) != nil || s < 0 || s > maxSeconds {
			return fmt.Errorf("want seconds, 0 to %d", int64(maxSeconds))
		}
		*into = time.Duration(s * float64(time.Second))
		return nil
	}
}

// Number decodes an integer from low to high.
func Number(into *uint64, low, high uint64) func(json.RawMessage) error {
	return func(raw json.RawMessage) error {
		if json.Unmarshal(raw, into) != nil || *into < low || *into > high {
			return fmt.Errorf("want an integer of %d to %d", low, high)
		}
		return nil
	}
}

// Boolean decodes true or false.
func Boolean(into *bool) func(json.RawMessage) error {
	return func(raw json.RawMessage) error {
		if json.Unmarshal(raw, into) != nil {
			return errors.New("want true or false")
		}
		return nil
	}
}

// Strings decodes a list of strings.
func Strings(into *[]string) func(json.RawMessage) error {
	return func(raw json.RawMessage) error {
		var list []*string
		if json.Unmarshal(raw, &list) != nil || slices.Contains(list, nil) {
			return fmt.Errorf("want a list of strings")
		}
		for _, s := range list {
			*into = append(*into, *s)
		}
		return nil
	}
}

// Object decodes an object with arbitrary keys.
func Object[T any](into *map[string]T, decode func(json.RawMessage) (T, error)) func(json.RawMessage) error {
	return func(b json.RawMessage) error {
		*into = map[string]T{}
		return eachKey(b, func(key string, raw func() (json.RawMessage, error)) error {
			b, err := raw()
			if err == nil {
				(*into)[key], err = decode(b)
			}
			if err != nil {
				return fmt.Errorf("of %s: %w", refusal.Excerpt([]byte(key)), err)
			}
			return nil
		})
	}
}

// Weight decodes the weight of a source.
func Weight(raw json.RawMessage) (w float64, err error) {
	if json.Unmarshal(raw, &w) != nil {
		return 0, errors.New("want a number from 0 to 1e9")
	}
	return w, nil
}

// Source decodes the configuration of a source. Omitted keys have the defaults of a configuration file.
func Source(c runconfig.Config) func(json.RawMessage) (mixture.Source, error) {
	return func(raw json.RawMessage) (s mixture.Source, err error) {
		packing := c.Packing
		packing.Buckets = slices.Clone(packing.Buckets)
		s = mixture.Source{Epochs: 1, Block: mixture.DefaultBlock, Packing: &packing}
		var there map[string]json.RawMessage
		if json.Unmarshal(raw, &there) != nil {
			return s, errors.New("want an object: the configuration of a source")
		}
		if there["packing"] == nil {
			s.Packing = nil
		}
		dec := json.NewDecoder(bytes.NewReader(raw))
		dec.DisallowUnknownFields()
		if err := dec.Decode(&s); err != nil {
			return s, fmt.Errorf("the configuration of a source: %w", err)
		}
		if s.Packing != nil && (s.Attention == "" || s.Attention == runconfig.AttentionAuto) {
			s.Attention = runconfig.MethodAttention(s.Packing.Method)
		}
		return s, nil
	}
}

// CheckRun returns an error if a request names another run than the served one, by name or, if present, by id.
func CheckRun(name, id string, info loader.Info) error {
	if name == info.Run || slices.Contains(info.FormerNames, name) {
		return checkRunID(id, info)
	}
	return &fault.Error{Reason: fault.RunMismatch,
		Message: fmt.Sprintf("this daemon serves run %q, not %s", info.Run, refusal.Excerpt([]byte(name))),
		Advice:  "request the served run, omit run, or connect to the daemon of the other run",
		Facts:   map[string]string{"want": refusal.Shorten(name, 80), "have": info.Run}}
}

func checkRunID(id string, info loader.Info) error {
	switch {
	case id == "" || id == info.ID:
		return nil
	case !info.HasPlan: // or this daemon has not read the plan yet
		return &fault.Error{Reason: fault.NotLeading, Message: fmt.Sprintf("this daemon has not read the plan of run %q yet",
			info.Run), Advice: "ask again"}
	}
	return &fault.Error{Reason: fault.RunReplaced,
		Message: fmt.Sprintf("run %q was deleted and restarted: it has the id %s, the request is for %s", info.Run,
			info.ID, id),
		Advice: "its steps may differ from the earlier ones: resume from a checkpoint of this run, start at step 0 without " +
			"one, or restore the former run's plan from its backup",
		Facts: map[string]string{"run": info.Run, "want": id, "have": info.ID}}
}
