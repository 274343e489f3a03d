"""Orders, receipts, thumbnails and a partner who often is out of order: work for a queue."""
