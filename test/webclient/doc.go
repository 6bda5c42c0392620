// Package webclient tests what asks: the module for web pages, under Node and in Chromium.
package webclient
