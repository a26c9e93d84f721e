package publish

import (
	"context"
	"encoding/json"
	"fmt"

	"loaderd/stream"
	"loaderd/stream/conn"
	"loaderd/stream/messages"
)

// Origin is where a document of the stream came from, as far as it is recorded.
type Origin struct {
	Path string
	// Input is the name of the input whose record covers the document; empty for none or more than one.
	Input string
}

// Origin returns where a document of the publisher's source came from. It reads one message and the source's records.
func (p *Publisher) Origin(ctx context.Context, sequence uint64) (Origin, error) {
	ctx, cancel := context.WithTimeout(ctx, conn.AttemptTimeout)
	defer cancel()
	m, err := messages.Get(ctx, p.store.Client, p.stream, sequence)
	if err != nil {
		return Origin{}, fmt.Errorf("read document %d: %w", sequence, err)
	}
	o := Origin{Path: m.Header.Get(stream.HeaderPath)}
	records, err := messages.GetLastOfEach(ctx, p.store.Client, "KV_"+stream.RecordsBucket, "$KV."+stream.RecordsBucket+
		"."+p.source+".*")
	if err != nil {
		return o, fmt.Errorf("read the records of source %s: %w", p.source, err)
	}
	var inputs []string
	for _, r := range records {
		var v recordValue
		ours := json.Unmarshal(r.Data, &v) == nil && v.Stream == p.store.Config().Name && v.Created.Equal(p.created)
		if ours && v.FirstSequence < sequence && sequence <= v.LastSequence {
			inputs = append(inputs, v.Input)
		}
	}
	if len(inputs) == 1 {
		o.Input = inputs[0]
	}
	return o, nil
}
