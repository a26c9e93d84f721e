package auth

import "net"

// Exposed reports whether other machines can reach an address, host:port. It is false for an invalid address.
func Exposed(address string) bool {
	_, _, err := net.SplitHostPort(address)
	return err == nil && !OnLoopback(address)
}

// OnLoopback reports whether only this machine can reach an address, host:port.
func OnLoopback(address string) bool {
	host, _, _ := net.SplitHostPort(address)
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}
