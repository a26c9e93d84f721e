package arrowout

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"loaderd/arrowout/internal/refusal"
	"loaderd/loader/fault"
)

// Domain is the domain of every ErrorInfo.
const Domain = "loaderd"

// Code returns the gRPC status code of a reason. docs/reference/errors.md has the table for users; a test compares the
// two.
func Code(r fault.Reason) codes.Code {
	switch r {
	case fault.SourceDry, fault.SourceDown, fault.TokenizerBehind, fault.PoolFilling, fault.StreamFull,
		fault.DocumentsFiltered, fault.RankBehind, fault.RankMissing, fault.Replaying,
		fault.NotLeading, fault.PlanLogDown, fault.StorageFull, fault.StorageDown, fault.CauseUnknown,
		fault.ShuttingDown, fault.Limited, fault.SlowReader, fault.IdleReader:
		return codes.Unavailable
	case fault.PlanMismatch, fault.StreamMismatch, fault.PlanTruncated, fault.PlanForeign, fault.RunMismatch,
		fault.RunReplaced, fault.WorldMismatch, fault.WorldConflict, fault.Replaced,
		fault.DuplicateRank, fault.TooManySegments:
		return codes.FailedPrecondition
	case fault.StepPurged, fault.StepNotPlanned:
		return codes.OutOfRange
	case fault.InvalidTicket:
		return codes.InvalidArgument
	case fault.InvalidToken:
		return codes.Unauthenticated
	case fault.Forbidden:
		return codes.PermissionDenied
	case fault.DocumentLost:
		return codes.DataLoss
	case fault.Unsupported:
		return codes.Unimplemented
	}
	return codes.Internal
}

// Bounds of the content of a status. gRPC clients reject trailers of more than 8 KiB, and a status is sent in three
// encodings.
const (
	maxMessage = 1000
	maxFact    = 200
	maxKey     = 40
	maxFacts   = 16
)

// statusOf returns the status that a client receives. For an untyped error it only refers to the log, because the
// error may contain paths, addresses or credentials. The cause wrapped in a *fault.Error is only logged for the same
// reason.
func statusOf(err error, call uint64) *status.Status {
	var typed *fault.Error
	if errors.As(err, &typed) {
		message := string(typed.Reason) + ": " + typed.Message
		if typed.Advice != "" {
			message += "; " + typed.Advice
		}
		return statusWithInfo(Code(typed.Reason), message, typed.Reason, typed.Facts)
	}
	switch {
	case errors.Is(err, context.Canceled):
		return status.New(codes.Canceled, "the call was cancelled")
	case errors.Is(err, context.DeadlineExceeded):
		return status.New(codes.DeadlineExceeded, "the call's deadline has passed; set no deadline on a long DoGet")
	}
	if s, ok := status.FromError(err); ok {
		return s // from gRPC, such as for a ticket larger than a message may be
	}
	return statusWithInfo(codes.Internal, fmt.Sprintf(
		"%s: the daemon failed to serve this call; see call=%d in its log for the cause", fault.Internal, call),
		fault.Internal, map[string]string{"call": strconv.FormatUint(call, 10)})
}

func statusWithInfo(code codes.Code, message string, reason fault.Reason, facts map[string]string) *status.Status {
	info := &errdetails.ErrorInfo{Domain: Domain, Reason: string(reason), Metadata: map[string]string{}}
	for _, k := range slices.Sorted(maps.Keys(facts)) { // equal facts give equal statuses
		if len(info.Metadata) < maxFacts {
			info.Metadata[refusal.Shorten(k, maxKey)] = refusal.Shorten(facts[k], maxFact)
		}
	}
	bare := status.New(code, refusal.Shorten(message, maxMessage))
	s, err := bare.WithDetails(info)
	if err != nil {
		return bare // WithDetails fails only for OK, and no reason has that code
	}
	return s
}

// reasonOf returns the label of an error in metrics.
func reasonOf(s *status.Status) string {
	for _, d := range s.Details() {
		if info, ok := d.(*errdetails.ErrorInfo); ok {
			return info.Reason
		}
	}
	return s.Code().String()
}

// arrowTrailers returns the trailers that let Arrow's C++ clients, and so pyarrow, decode the status with its
// details. Without x-arrow-status they drop the details.
func arrowTrailers(s *status.Status) metadata.MD {
	return metadata.Pairs("x-arrow-status", strconv.Itoa(arrowCode(s.Code())), "x-arrow-status-message-bin", s.Message())
}

// arrowCode returns the arrow::StatusCode for a gRPC code.
func arrowCode(c codes.Code) int {
	switch c {
	case codes.InvalidArgument, codes.FailedPrecondition, codes.OutOfRange:
		return 4 // Invalid
	case codes.Canceled:
		return 8 // Cancelled
	case codes.Unimplemented:
		return 10 // NotImplemented
	}
	return 5 // IOError
}
