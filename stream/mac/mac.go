// Package mac authenticates data that the daemons of a run write: message authentication codes (HMAC-SHA256, the
// first 16 bytes) with the run's plan keys, each bound to its purpose, run and place.
package mac

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
)

// Header is the header of a record, or of a message between daemons, with its MAC in hexadecimal digits. The record's
// bytes are the same with and without a MAC.
const Header = "Loaderd-Mac"

// Size is the length of a MAC in bytes: the first half of an HMAC-SHA256.
const Size = 16

// Keyring creates and verifies MACs. The first key creates them, and a MAC of any key is valid. Without a key
// no MACs exist.
type Keyring [][]byte

// Purposes of MACs. A MAC of one purpose is not valid for another.
const (
	Record     = "record"
	Checkpoint = "checkpoint"
	Heartbeat  = "heartbeat"
	Status     = "status"
	Request    = "request"
	Response   = "response"
)

// computeMAC returns the MAC of the parts of a message: HMAC-SHA256 over the purpose, the run and each part, each
// preceded by its length.
func computeMAC(key []byte, purpose, run string, parts ...[]byte) []byte {
	h := hmac.New(sha256.New, key)
	var length [8]byte
	for _, p := range append([][]byte{[]byte("loaderd " + purpose), []byte(run)}, parts...) {
		binary.LittleEndian.PutUint64(length[:], uint64(len(p)))
		_, _ = h.Write(length[:])
		_, _ = h.Write(p)
	}
	return h.Sum(nil)[:Size]
}

// Compute returns the MAC of the parts of a message, by the first key.
func (k Keyring) Compute(purpose, run string, parts ...[]byte) []byte {
	return computeMAC(k[0], purpose, run, parts...)
}

// Verify reports whether c is a MAC of the parts of a message, by any key.
func (k Keyring) Verify(c []byte, purpose, run string, parts ...[]byte) bool {
	for _, key := range k {
		if hmac.Equal(c, computeMAC(key, purpose, run, parts...)) {
			return true
		}
	}
	return false
}

// ComputeHex is Code in the hexadecimal form of the header.
func (k Keyring) ComputeHex(purpose, run string, parts ...[]byte) string {
	return hex.EncodeToString(k.Compute(purpose, run, parts...))
}

// VerifyHex is Verify for the hexadecimal form of the header.
func (k Keyring) VerifyHex(text, purpose, run string, parts ...[]byte) bool {
	c, err := hex.DecodeString(text)
	return err == nil && k.Verify(c, purpose, run, parts...)
}
