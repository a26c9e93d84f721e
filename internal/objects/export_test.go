package objects

import (
	"net/http"
	"net/netip"
)

// TreatAsPrivate decides which addresses count as those of this machine or its network.
func (s *Stores) TreatAsPrivate(private func(netip.Addr) bool) {
	s.web = webClient(http.DefaultTransport.(*http.Transport).Clone(), private)
}

// IsPrivate is isPrivate.
var IsPrivate = isPrivate
