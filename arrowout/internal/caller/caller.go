// Package caller holds the identity and the address of the caller of a call.
package caller

import (
	"context"

	"google.golang.org/grpc/peer"

	"loaderd/internal/auth"
)

type key struct{}

// With returns a context of a call by who.
func With(ctx context.Context, who auth.Identity) context.Context {
	return context.WithValue(ctx, key{}, who)
}

// Of returns the identity of the caller; without With the zero Identity, which may do nothing.
func Of(ctx context.Context) auth.Identity {
	who, _ := ctx.Value(key{}).(auth.Identity)
	return who
}

// Address returns the address of the caller, host:port.
func Address(ctx context.Context) string {
	if p, ok := peer.FromContext(ctx); ok && p.Addr != nil {
		return p.Addr.String()
	}
	return "unknown"
}
