package stream

import (
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// createdKey is the metadata key for the creation time of a stream's original, if it was copied from other servers.
const createdKey = "loaderd.created"

// Created returns when a stream was created, which distinguishes it from an earlier or later stream of the same name.
// Plans, low watermarks and records refer to it. A copy with all its sequences counts as its original. The creation
// time that a server reports for the copy is ignored, and differs between servers.
func Created(info *jetstream.StreamInfo) time.Time {
	if at, err := time.Parse(time.RFC3339Nano, info.Config.Metadata[createdKey]); err == nil {
		return at
	}
	return info.Created
}
