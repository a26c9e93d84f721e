package access

import "net"

// Exposed says whether others than this machine reach an address, host:port. It says no to what is no address.
func Exposed(address string) bool {
	_, _, err := net.SplitHostPort(address)
	return err == nil && !OnLoopback(address)
}

// OnLoopback says whether only this machine reaches an address, host:port.
func OnLoopback(address string) bool {
	host, _, _ := net.SplitHostPort(address)
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}
