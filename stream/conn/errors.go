package conn

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// Error codes of the server that need separate handling. The client library names few of them.
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

	codeNoPeers            jetstream.ErrorCode = 10005 // no servers for all replicas
	codeCopiesNotSupported jetstream.ErrorCode = 10074 // by a server without a cluster

	codeRestoreNameTaken jetstream.ErrorCode = 10130
	codePurgeDenied      jetstream.ErrorCode = 10110 // by the stream's configuration

	codeInsufficient      jetstream.ErrorCode = 10023 // server out of memory or disk
	codeNoStorage         jetstream.ErrorCode = 10047
	codeWrongLast         jetstream.ErrorCode = 10071
	codeWrongLastConstant jetstream.ErrorCode = 10164
)

// ErrFull reports that a stream holds as much as its bounds allow. Nothing was stored. Space becomes available when
// documents are purged or the bound is raised.
var ErrFull = errors.New("stream is full")

// AsFull turns the server's errors for lack of space into ErrFull and returns other errors unchanged.
func AsFull(err error) error {
	var api *jetstream.APIError
	if errors.As(err, &api) && isSpaceError(api) {
		return fmt.Errorf("%w: %w", ErrFull, err)
	}
	return err
}

// IsNoSpace reports whether the server refused to create something because it has no space for the requested size.
func IsNoSpace(err error) bool {
	var api *jetstream.APIError
	return errors.As(err, &api) && (isSpaceError(api) || api.ErrorCode == codeNoPeers &&
		strings.Contains(api.Description, noStorage))
}

// noStorage is part of a cluster's error when no server has enough space.
const noStorage = "insufficient storage"

func isSpaceError(e *jetstream.APIError) bool {
	switch e.ErrorCode {
	case CodeAccountFull, codeInsufficient, codeNoStorage:
		return true
	case CodeStoreFailed:
		return strings.Contains(e.Description, "maximum") && !strings.Contains(e.Description, "message size")
	default:
		return false
	}
}

// IsWrongLastSequence reports whether the server refused a message because the last sequence, of the stream or of the
// subject, differs from the expected one.
func IsWrongLastSequence(err error) bool {
	var api *jetstream.APIError
	return errors.As(err, &api) && (api.ErrorCode == codeWrongLast || api.ErrorCode == codeWrongLastConstant)
}

// IsNoPeers reports whether the server refused to create something because it finds no servers for it: too few
// exist, or some are down.
func IsNoPeers(err error) bool {
	var api *jetstream.APIError
	return errors.As(err, &api) && api.ErrorCode == codeNoPeers
}

// IsNameTaken reports whether the server refused to restore a stream because a stream of that name exists or is
// being removed.
func IsNameTaken(err error) bool {
	var api *jetstream.APIError
	return errors.As(err, &api) && (api.ErrorCode == codeRestoreNameTaken ||
		api.ErrorCode == jetstream.JSErrCodeStreamNameInUse)
}

// IsTooFewServers reports whether the server refused a number of replicas because the cluster has fewer servers. It is
// false if one of the servers is down or has no space.
func IsTooFewServers(err error) bool {
	var api *jetstream.APIError
	return errors.As(err, &api) && (api.ErrorCode == codeCopiesNotSupported || api.ErrorCode == codeNoPeers &&
		api.Description == noPeers)
}

// noPeers is the server's error if it has no reason why a server cannot be chosen: no further servers exist.
const noPeers = "no suitable peers for placement"

// AsTransient marks an error as transient. It is for errors that this project detects.
func AsTransient(err error) error { return transientError{err} }

type transientError struct{ error }

func (p transientError) Unwrap() error { return p.error }

// transientErrors are the transient errors of the client library: the connection is down, no server responded, the
// response was invalid, or an object that the library created on the server is gone and can be created again.
var transientErrors = []error{
	nats.ErrTimeout, nats.ErrNoResponders, nats.ErrDisconnected, nats.ErrConnectionReconnecting,
	nats.ErrReconnectBufExceeded,
	nats.ErrStaleConnection, context.DeadlineExceeded, jetstream.ErrNoStreamResponse, jetstream.ErrJetStreamNotEnabled,
	jetstream.ErrNoHeartbeat, jetstream.ErrInvalidJSAck, jetstream.ErrInvalidJetStreamResponse,
	jetstream.ErrServerShutdown,
	jetstream.ErrConsumerDeleted, jetstream.ErrConsumerNotFound, jetstream.ErrConsumerLeadershipChanged,
}

// IsTransient reports whether an error can pass without intervention, so that retrying is useful. Errors are
// final by default:
//
//	the server responded   transient if busy (5xx, 429) or part of a batch was lost, except for lack of space
//	the client library     transient if in passes
//	this project           transient if marked Passing
//
// A final error is returned immediately. Retrying it forever would hide its cause.
func IsTransient(err error) bool {
	var own transientError
	if errors.As(err, &own) {
		return true
	}
	var api *jetstream.APIError
	if errors.As(err, &api) {
		return api.ErrorCode == CodeBatchIncomplete || (api.Code >= 500 || api.Code == 429) &&
			api.ErrorCode != CodeStoreFailed &&
			api.ErrorCode != codePurgeDenied && !isSpaceError(api)
	}
	for _, e := range transientErrors {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

// ErrReplicaLagging is the error of a read from a replica that has not received the message yet. Reads can go to any
// replica.
var ErrReplicaLagging = AsTransient(errors.New("the server has not got this record yet"))
