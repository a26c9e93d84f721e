// Package caller stores the identity and the address of a call's caller in its context.
package caller

import (
	"context"

	"google.golang.org/grpc/peer"

	"loaderd/internal/auth"
)

type identityKey struct{}

// WithIdentity returns a context of a call whose caller has the identity who.
func WithIdentity(ctx context.Context, who auth.Identity) context.Context {
	return context.WithValue(ctx, identityKey{}, who)
}

// Identity returns the identity of the caller. Without With it returns the zero Identity, which has no permissions.
func Identity(ctx context.Context) auth.Identity {
	who, _ := ctx.Value(identityKey{}).(auth.Identity)
	return who
}

// Address returns the address of the caller, host:port.
func Address(ctx context.Context) string {
	if p, ok := peer.FromContext(ctx); ok && p.Addr != nil {
		return p.Addr.String()
	}
	return "unknown"
}
