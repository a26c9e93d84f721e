package conn

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// Codes of the server's refusals that are told apart. The client library names few of them.
const (
	CodeAccountFull       jetstream.ErrorCode = 10002 // the storage limit of the account is reached
	CodeMessageTooLarge   jetstream.ErrorCode = 10054
	CodeSubjectsOverlap   jetstream.ErrorCode = 10065
	CodeStoreFailed       jetstream.ErrorCode = 10077 // with DiscardNew: the stream is full
	CodeDuplicateInFlight jetstream.ErrorCode = 10158
	CodeAtomicDisabled    jetstream.ErrorCode = 10174
	CodeBatchIncomplete   jetstream.ErrorCode = 10176
	CodeBatchTooLarge     jetstream.ErrorCode = 10199
	CodeBatchDuplicate    jetstream.ErrorCode = 10201
	CodeTooManyInflight   jetstream.ErrorCode = 10210

	codeNoPeers            jetstream.ErrorCode = 10005 // no servers to place all copies on
	codeCopiesNotSupported jetstream.ErrorCode = 10074 // by a server that stands alone

	codeRestoreNameTaken jetstream.ErrorCode = 10130
	codePurgeDenied      jetstream.ErrorCode = 10110 // by the stream's configuration

	codeInsufficient      jetstream.ErrorCode = 10023 // server out of memory or disk
	codeNoStorage         jetstream.ErrorCode = 10047
	codeWrongLast         jetstream.ErrorCode = 10071
	codeWrongLastConstant jetstream.ErrorCode = 10164
)

// ErrFull says that a stream holds as much as its bounds allow. Nothing was stored; room comes when documents are
// purged or the bound is raised.
var ErrFull = errors.New("stream is full")

// AsFull turns the server's refusals for want of room into ErrFull and leaves other errors as they are.
func AsFull(err error) error {
	var api *jetstream.APIError
	if errors.As(err, &api) && wantsRoom(api) {
		return fmt.Errorf("%w: %w", ErrFull, err)
	}
	return err
}

// NoRoom says whether the server refused to make something because it may not become as large as it asks to.
func NoRoom(err error) bool {
	var api *jetstream.APIError
	return errors.As(err, &api) && (wantsRoom(api) || api.ErrorCode == codeNoPeers &&
		strings.Contains(api.Description, noStorage))
}

// noStorage is in what a cluster says when none of its servers has room enough.
const noStorage = "insufficient storage"

func wantsRoom(e *jetstream.APIError) bool {
	switch e.ErrorCode {
	case CodeAccountFull, codeInsufficient, codeNoStorage:
		return true
	case CodeStoreFailed:
		return strings.Contains(e.Description, "maximum") && !strings.Contains(e.Description, "message size")
	default:
		return false
	}
}

// WrongLast says whether the server refused because the last sequence, of the stream or of the subject, is not the
// expected one.
func WrongLast(err error) bool {
	var api *jetstream.APIError
	return errors.As(err, &api) && (api.ErrorCode == codeWrongLast || api.ErrorCode == codeWrongLastConstant)
}

// NoPeers says whether the server refused to make something because it finds no servers for it: there are too few, or
// some are down.
func NoPeers(err error) bool {
	var api *jetstream.APIError
	return errors.As(err, &api) && api.ErrorCode == codeNoPeers
}

// NameTaken says whether the server refused a copy of a stream because it has one of the name, or is about to remove
// what is left of one.
func NameTaken(err error) bool {
	var api *jetstream.APIError
	return errors.As(err, &api) && (api.ErrorCode == codeRestoreNameTaken ||
		api.ErrorCode == jetstream.JSErrCodeStreamNameInUse)
}

// TooFewServers says whether the server refused to keep so many copies because there are not as many servers. That one
// of them is down at the moment, or has no room, are other refusals.
func TooFewServers(err error) bool {
	var api *jetstream.APIError
	return errors.As(err, &api) && (api.ErrorCode == codeCopiesNotSupported || api.ErrorCode == codeNoPeers &&
		api.Description == noPeers)
}

// noPeers is what the server says when it names no reason why a server cannot be chosen: there are no more.
const noPeers = "no suitable peers for placement"

// Passing marks an error as one that may pass by itself. It is for what this project finds out itself.
func Passing(err error) error { return passing{err} }

type passing struct{ error }

func (p passing) Unwrap() error { return p.error }

// passes are the errors of the client library that may pass: the connection is down, nobody answered, the answer was no
// answer, or what the library had made on the server is gone and can be made again.
var passes = []error{
	nats.ErrTimeout, nats.ErrNoResponders, nats.ErrDisconnected, nats.ErrConnectionReconnecting,
	nats.ErrReconnectBufExceeded,
	nats.ErrStaleConnection, context.DeadlineExceeded, jetstream.ErrNoStreamResponse, jetstream.ErrJetStreamNotEnabled,
	jetstream.ErrNoHeartbeat, jetstream.ErrInvalidJSAck, jetstream.ErrInvalidJetStreamResponse,
	jetstream.ErrServerShutdown,
	jetstream.ErrConsumerDeleted, jetstream.ErrConsumerNotFound, jetstream.ErrConsumerLeadershipChanged,
}

// Transient says whether an error may pass by itself, so that trying again is of use. An error is final unless it is
// known to pass:
//
//	the server answered    it is busy (5xx, 429) or lost a part of a batch; not that there is no room, and no other refusal
//	the client library     those in passes
//	this project           those marked Passing
//
// What is final says so at once; what would be tried again for ever with no chance would hide its cause.
func Transient(err error) bool {
	var own passing
	if errors.As(err, &own) {
		return true
	}
	var api *jetstream.APIError
	if errors.As(err, &api) {
		return api.ErrorCode == CodeBatchIncomplete || (api.Code >= 500 || api.Code == 429) &&
			api.ErrorCode != CodeStoreFailed &&
			api.ErrorCode != codePurgeDenied && !wantsRoom(api)
	}
	for _, e := range passes {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

// ErrBehind comes from a replica that a message has not reached yet: messages are read from any replica.
var ErrBehind = Passing(errors.New("the server has not got this record yet"))
