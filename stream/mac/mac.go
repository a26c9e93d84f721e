// Package mac authenticates what the daemons of a run write: message authentication codes (HMAC-SHA256, the first 16
// bytes) with the run's plan keys, each bound to its purpose, run and place.
package mac

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
)

// Header is the header of a record, or of a message between daemons, with its code in hexadecimal digits. The record's
// bytes are the same with and without a code.
const Header = "Loaderd-Mac"

// Size is the length of a code in bytes: the first half of an HMAC-SHA256.
const Size = 16

// Keyring makes and verifies codes. The first key makes them, and a code of any key is valid. Without a key there are
// no codes.
type Keyring [][]byte

// Purposes of codes. A code of one purpose is not valid for another.
const (
	Record     = "record"
	Checkpoint = "checkpoint"
	Heartbeat  = "heartbeat"
	Status     = "status"
	Request    = "request"
	Response   = "response"
)

// code returns the code of the parts of a message: HMAC-SHA256 over the purpose, the run and each part, with their
// lengths before them.
func code(key []byte, purpose, run string, parts ...[]byte) []byte {
	h := hmac.New(sha256.New, key)
	var length [8]byte
	for _, p := range append([][]byte{[]byte("loaderd " + purpose), []byte(run)}, parts...) {
		binary.LittleEndian.PutUint64(length[:], uint64(len(p)))
		_, _ = h.Write(length[:])
		_, _ = h.Write(p)
	}
	return h.Sum(nil)[:Size]
}

// Code returns the code of the parts of a message, by the first key.
func (k Keyring) Code(purpose, run string, parts ...[]byte) []byte {
	return code(k[0], purpose, run, parts...)
}

// Verify reports whether a code is of the parts of a message, by any key.
func (k Keyring) Verify(c []byte, purpose, run string, parts ...[]byte) bool {
	for _, key := range k {
		if hmac.Equal(c, code(key, purpose, run, parts...)) {
			return true
		}
	}
	return false
}

// Text is Code in the form of the header.
func (k Keyring) Text(purpose, run string, parts ...[]byte) string {
	return hex.EncodeToString(k.Code(purpose, run, parts...))
}

// VerifyText is Verify for the form of the header.
func (k Keyring) VerifyText(text, purpose, run string, parts ...[]byte) bool {
	c, err := hex.DecodeString(text)
	return err == nil && k.Verify(c, purpose, run, parts...)
}
