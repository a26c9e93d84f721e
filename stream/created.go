package stream

import (
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// createdKey is where a stream's settings say when it was made, if it was copied from other servers.
const createdKey = "loaderd.created"

// Created is when a stream was made, which tells it from an earlier and a later one of its name: plans, floors and
// records refer to it. A copy with all its sequences is the stream that it was copied from; when a server calls the
// copy made does not count, and differs between servers.
func Created(info *jetstream.StreamInfo) time.Time {
	if at, err := time.Parse(time.RFC3339Nano, info.Config.Metadata[createdKey]); err == nil {
		return at
	}
	return info.Created
}
