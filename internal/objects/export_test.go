package objects

import (
	"net/http"
	"net/netip"
)

// TreatAsPrivate replaces the function that decides which addresses belong to this machine or its network.
func (s *Stores) TreatAsPrivate(private func(netip.Addr) bool) {
	s.web = webClient(http.DefaultTransport.(*http.Transport).Clone(), private)
}

// IsPrivate exports isPrivate.
var IsPrivate = isPrivate
