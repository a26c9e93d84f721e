// Package caller says who has made a call, and from where.
package caller

import (
	"context"

	"google.golang.org/grpc/peer"

	"loaderd/internal/access"
)

type key struct{}

// With returns a context in which who has called.
func With(ctx context.Context, who access.Identity) context.Context {
	return context.WithValue(ctx, key{}, who)
}

// Of returns who has called: nobody, who may do nothing, where With was not called.
func Of(ctx context.Context) access.Identity {
	who, _ := ctx.Value(key{}).(access.Identity)
	return who
}

// Address returns where a call comes from, as host:port.
func Address(ctx context.Context) string {
	if p, ok := peer.FromContext(ctx); ok && p.Addr != nil {
		return p.Addr.String()
	}
	return "unknown"
}
