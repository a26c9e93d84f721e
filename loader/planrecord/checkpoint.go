package planrecord

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"

	"loaderd/loader/internal/codec"
)

const (
	checkpointMagic   = "LC"
	checkpointVersion = 1
	// skipVersion is the version of a checkpoint with a job that has skipped steps.
	skipVersion = 2
	// worldVersion is the version of a checkpoint with a job that has changed its world size.
	worldVersion = 3
)

// Checkpoint is the complete state of an applier after a record of the plan log. It shortens a restart; no plan
// depends on it.
type Checkpoint struct {
	Fingerprint string // of the run's configuration
	Tail        Tail   // last record that the checkpoint covers
	Commits     Commits
	WorldSizes  WorldSizes
	Pending     []Control // recorded but not in effect yet
	Planner     []byte    // state of the planner
}

// Tail identifies the end of a plan log.
type Tail struct {
	Position uint64
	Checksum uint32 // the last record's checksum
}

// NewTail returns the tail of a log that ends with a record.
func NewTail(position uint64, record []byte) Tail {
	return Tail{position, binary.LittleEndian.Uint32(record[len(record)-4:])}
}

// Encode returns the encoded checkpoint; docs/reference/plan.md describes the format.
func (c Checkpoint) Encode() []byte {
	version := byte(checkpointVersion)
	if c.Commits.Skipped() != nil {
		version = skipVersion
	}
	if len(c.WorldSizes) > 0 {
		version = worldVersion
	}
	b := append([]byte(checkpointMagic), version)
	b = codec.AppendString(b, c.Fingerprint)
	b = binary.AppendUvarint(b, c.Tail.Position)
	b = binary.AppendUvarint(b, uint64(c.Tail.Checksum))
	b = c.Commits.appendState(b, version >= skipVersion)
	if version == worldVersion {
		b = c.WorldSizes.appendState(b)
	}
	b = binary.AppendUvarint(b, uint64(len(c.Pending)))
	for _, p := range c.Pending {
		b = p.appendBody(append(b, p.Kind()))
	}
	b = append(b, c.Planner...)
	return binary.LittleEndian.AppendUint32(b, crc32.Checksum(b, castagnoli))
}

// DecodeCheckpoint reads what Encode wrote.
func DecodeCheckpoint(b []byte) (Checkpoint, error) {
	var c Checkpoint
	if len(b) < len(checkpointMagic)+5 || string(b[:2]) != checkpointMagic {
		return c, errors.New("not a checkpoint")
	}
	if b[2] < checkpointVersion || b[2] > worldVersion {
		return c, fmt.Errorf("format version %d, this binary reads %d to %d", b[2], checkpointVersion, worldVersion)
	}
	body, sum := b[:len(b)-4], binary.LittleEndian.Uint32(b[len(b)-4:])
	if crc32.Checksum(body, castagnoli) != sum {
		return c, errors.New("checksum does not match: it is corrupted or cut short")
	}
	in := codec.Cursor{Buf: body[3:]}
	c.Fingerprint = string(in.Bytes(int(in.BoundedUvarint(1 << 10))))
	c.Tail = Tail{in.Uvarint(), uint32(in.BoundedUvarint(1<<32 - 1))}
	c.Commits = readCommits(&in, b[2] >= skipVersion)
	if b[2] == worldVersion {
		c.WorldSizes = readWorldSizes(&in)
	}
	for range in.BoundedUvarint(1 << 20) {
		kind := in.Bytes(1)
		if in.Err != nil {
			break
		}
		control, ok := readEntry(&in, kind[0]).(Control)
		if in.Err != nil || !ok {
			in.Fail(fmt.Errorf("a record of kind %d waits to take effect", kind[0]))
			break
		}
		c.Pending = append(c.Pending, control)
	}
	c.Planner = in.Buf
	return c, in.Err
}
